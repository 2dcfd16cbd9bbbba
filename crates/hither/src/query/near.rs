//! Near matches for a misspelt name.

/// The names among `candidates` that are most like `name`: at most `most` of them, the nearest first. A name is near
/// when no more than a third of it has to change, where upper and lower case count as the same letter.
pub fn near_matches<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let wanted: Vec<char> = name.chars().take(MAX_LENGTH).flat_map(char::to_lowercase).collect();
    let limit = (wanted.len() / 3).max(1);
    let mut near: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let letters: Vec<char> =
                candidate.chars().take(MAX_LENGTH).flat_map(char::to_lowercase).collect();
            if letters.len().abs_diff(wanted.len()) > limit {
                return None;
            }
            Some((distance(&wanted, &letters), candidate)).filter(|(d, _)| *d <= limit)
        })
        .collect();
    near.sort();
    near.dedup();
    near.into_iter().take(most).map(|(_, candidate)| candidate).collect()
}

/// ` (did you mean ...?)` with the near matches, or nothing.
pub(super) fn suggestion<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let near = near_matches(name, candidates, 3);
    if near.is_empty() {
        return String::new();
    }
    let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    format!(", did you mean {}", near.join(" or "))
}

/// Longer names are compared by their beginnings; the cost of one comparison is the product of both lengths.
const MAX_LENGTH: usize = 64;

/// How many letters have to be put in, left out, changed, or swapped with the next one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let mut best =
                (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_found() {
        let names = ["rawtr", "rawid", "E33", "eneg", "TMath::Abs"];
        assert_eq!(near_matches("rwatr", names, 3), ["rawtr"]);
        assert_eq!(near_matches("e33", names, 3), ["E33"]);
        assert_eq!(near_matches("tmath::abs", names, 3), ["TMath::Abs"]);
        assert!(near_matches("muon_pt", names, 3).is_empty());
    }

    #[test]
    fn the_nearest_comes_first() {
        assert_eq!(near_matches("abcdef", ["abcxyf", "abcdeg", "abcdef"], 2), ["abcdef", "abcdeg"]);
    }
}

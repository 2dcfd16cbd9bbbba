//! Near matches for a misspelt name.

/// Names compared per look-up; trees have hundreds of branches, hostile files may have millions.
const COMPARED: usize = 20_000;
/// Longest name, in characters, for which an edit distance is worked out.
const MAX_CHARS: usize = 256;

/// The names that resemble `wanted`, `most` of them, best first: equal but for case, equal last path component, within a
/// small edit distance, or containing it.
#[must_use]
pub fn closest_names<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let wanted = lower(wanted);
    let mut scored: Vec<(usize, &str)> = names
        .into_iter()
        .take(COMPARED)
        .filter_map(|name| Some((score(&wanted, &lower(name))?, name)))
        .collect();
    scored.sort();
    scored.dedup();
    scored.into_iter().take(most).map(|(_, name)| name).collect()
}

fn lower(name: &str) -> Vec<char> {
    name.chars().take(MAX_CHARS).flat_map(char::to_lowercase).collect()
}

fn score(wanted: &[char], name: &[char]) -> Option<usize> {
    if wanted.is_empty() || name.is_empty() {
        return None;
    }
    let last = name.rsplit(|&c| c == '/' || c == '.').next().unwrap_or(name);
    if last == wanted {
        return Some(0);
    }
    let allowed = wanted.len().div_ceil(3).min(4);
    if let Some(distance) =
        distance(wanted, name, allowed).or_else(|| distance(wanted, last, allowed))
    {
        return Some(1 + distance);
    }
    let contains = wanted.len() >= 3 && name.windows(wanted.len()).any(|part| part == wanted);
    contains.then_some(10)
}

/// The Levenshtein distance if it is at most `allowed`.
fn distance(a: &[char], b: &[char], allowed: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > allowed {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut best = left;
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let above = *cell;
            left = (above + 1).min(left + 1).min(diagonal + usize::from(x != y));
            diagonal = above;
            *cell = left;
            best = best.min(left);
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        if best > allowed {
            return None;
        }
    }
    row.last().copied().filter(|&d| d <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_find_their_original_first() {
        let names = ["rawtr", "E33", "E33_time", "jets/pt", "run", "TMath::Abs"];
        assert_eq!(closest_names("e33", names, 5)[0], "E33");
        assert_eq!(closest_names("rwatr", names, 5), ["rawtr"]);
        assert_eq!(closest_names("pt", names, 5)[0], "jets/pt");
        assert_eq!(closest_names("tmath::abs", names, 5), ["TMath::Abs"]);
        assert!(closest_names("muon_eta", names, 5).is_empty());
    }

    #[test]
    fn the_nearest_comes_first() {
        assert_eq!(closest_names("abcdef", ["abcxef", "abcdef"], 2), ["abcdef", "abcxef"]);
    }

    #[test]
    fn distance_is_levenshtein_up_to_the_limit() {
        let chars = |s: &str| s.chars().collect::<Vec<_>>();
        assert_eq!(distance(&chars("kitten"), &chars("sitting"), 3), Some(3));
        assert_eq!(distance(&chars("kitten"), &chars("sitting"), 2), None);
    }
}

//! Near matches for a misspelt name.

/// Names compared per look-up; trees have hundreds of branches, hostile files may have millions.
const COMPARED: usize = 20_000;
/// Longest name, in characters, for which an edit distance is worked out.
const LONGEST: usize = 256;
/// Most names offered.
const OFFERED: usize = 5;

/// Up to five of `names` that resemble `wanted`, best first: equal but for case, equal last path component, within a
/// small edit distance, or containing it. Where nothing resembles it and there are few names, all of them.
pub(crate) fn near<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted_lower = lower(wanted);
    let mut scored: Vec<(usize, &str)> = Vec::new();
    let mut all: Vec<&str> = Vec::new();
    for name in names.take(COMPARED) {
        if let Some(score) = score(&wanted_lower, &lower(name)) {
            scored.push((score, name));
        }
        all.push(name);
    }
    if scored.is_empty() && all.len() <= 2 * OFFERED {
        return all.into_iter().map(str::to_owned).collect();
    }
    scored.sort_by_key(|&(score, _)| score);
    scored.into_iter().take(OFFERED).map(|(_, name)| name.to_owned()).collect()
}

fn lower(name: &str) -> Vec<char> {
    name.chars().take(LONGEST).flat_map(char::to_lowercase).collect()
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
        let names = ["rawtr", "E33", "E33_time", "jets/pt", "run"];
        assert_eq!(near("e33", names.into_iter())[0], "E33");
        assert_eq!(near("rwatr", names.into_iter())[0], "rawtr");
        assert_eq!(near("pt", names.into_iter())[0], "jets/pt");
    }

    #[test]
    fn few_names_are_all_offered_when_none_is_near() {
        assert_eq!(near("Events", ["tree", "meta"].into_iter()), ["tree", "meta"]);
        let many: Vec<String> = (0..50).map(|i| format!("column{i}")).collect();
        assert!(near("zz", many.iter().map(String::as_str)).is_empty());
    }

    #[test]
    fn distance_is_levenshtein_up_to_the_limit() {
        let chars = |s: &str| s.chars().collect::<Vec<_>>();
        assert_eq!(distance(&chars("kitten"), &chars("sitting"), 3), Some(3));
        assert_eq!(distance(&chars("kitten"), &chars("sitting"), 2), None);
    }
}

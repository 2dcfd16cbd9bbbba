//! Names to suggest in place of an unknown one.

use strsim::levenshtein;

/// Maximum number of names compared: trees have hundreds of branches, hostile files may have
/// millions.
const MAX_COMPARED: usize = 20_000;
/// Maximum length of a compared name in characters; longer ones are cut.
const MAX_CHARS: usize = 128;
/// Maximum number of names from [`closest_or_all`].
const MAX_SUGGESTED: usize = 5;

/// At most `max` of `names` that resemble `wanted`, best first: equal but for case, equal last path
/// component, within a small edit distance, or containing it.
#[must_use]
pub fn closest_names<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
    max: usize,
) -> Vec<&'a str> {
    let wanted = lower(wanted);
    let mut scored: Vec<(usize, &str)> = names
        .into_iter()
        .take(MAX_COMPARED)
        .filter_map(|name| Some((score(&wanted, &lower(name))?, name)))
        .collect();
    scored.sort();
    scored.dedup();
    scored.into_iter().take(max).map(|(_, name)| name).collect()
}

/// At most five of `names` that resemble `wanted`; all names if none does and there are few.
#[must_use]
pub fn closest_or_all<'a>(
    wanted: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Vec<String> {
    let mut suggested = closest_names(wanted, names.clone(), MAX_SUGGESTED);
    if suggested.is_empty() {
        suggested = names.take(2 * MAX_SUGGESTED + 1).collect();
        if suggested.len() > 2 * MAX_SUGGESTED {
            suggested.clear();
        }
    }
    suggested.into_iter().map(str::to_owned).collect()
}

fn lower(name: &str) -> String {
    name.chars().take(MAX_CHARS).flat_map(char::to_lowercase).collect()
}

/// Rank of a name among the suggestions, 0 for the best; none if it does not resemble `wanted`.
fn score(wanted: &str, name: &str) -> Option<usize> {
    if wanted.is_empty() || name.is_empty() {
        return None;
    }
    let last = name.rsplit(['/', '.']).next().unwrap_or(name);
    if last == wanted {
        return Some(0);
    }
    let chars = wanted.chars().count();
    let max = chars.div_ceil(3).min(4);
    if let Some(distance) = distance(wanted, name, max).or_else(|| distance(wanted, last, max)) {
        return Some(1 + distance);
    }
    (chars >= 3 && name.contains(wanted)).then_some(10)
}

/// The Levenshtein distance if it is at most `max`.
fn distance(a: &str, b: &str, max: usize) -> Option<usize> {
    // The difference in length is a lower bound, and spares nearly all comparisons.
    let difference = a.chars().count().abs_diff(b.chars().count());
    (difference <= max).then(|| levenshtein(a, b)).filter(|distance| *distance <= max)
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
    fn the_closest_name_comes_first() {
        assert_eq!(closest_names("abcdef", ["abcxef", "abcdef"], 2), ["abcdef", "abcxef"]);
    }

    #[test]
    fn a_name_further_away_than_the_maximum_has_no_distance() {
        assert_eq!(distance("kitten", "sitting", 3), Some(3));
        assert_eq!(distance("kitten", "sitting", 2), None);
    }

    #[test]
    fn few_names_are_all_suggested_when_none_is_close() {
        assert_eq!(closest_or_all("Events", ["tree", "meta"].into_iter()), ["tree", "meta"]);
        let many: Vec<String> = (0..50).map(|i| format!("column{i}")).collect();
        assert!(closest_or_all("zz", many.iter().map(String::as_str)).is_empty());
    }
}

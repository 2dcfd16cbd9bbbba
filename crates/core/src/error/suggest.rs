//! Names to suggest in place of an unknown one, as the end of an error message.

use std::fmt;
use strsim::levenshtein;

/// Maximum number of names compared: trees have hundreds of branches, hostile files may have
/// millions.
const MAX_COMPARED: usize = 20_000;
/// Maximum length of a compared name in characters; longer ones are cut.
const MAX_CHARS: usize = 128;
/// Maximum number of similar names in a suggestion.
const MAX_SIMILAR: usize = 3;
/// Maximum number of names of which all are listed if none is similar.
const MAX_ALL: usize = 10;
/// Maximum score of a name that is equal but for case or path.
const EQUAL: usize = 1;

/// Names to suggest in place of an unknown one. `Display` gives the end of the error message, which
/// is empty if there are no names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Suggestion {
    /// Similar names, best first: "; did you mean `a` or `b`?".
    Similar(Vec<String>),
    /// All names that exist: "; there are `a`, `b`".
    All(Vec<String>),
}

impl Suggestion {
    /// Those of `names` that resemble `wanted`: equal but for case, equal last path component,
    /// within a small edit distance, or containing it.
    #[must_use]
    pub fn similar<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let similar = closest_names(wanted, names, MAX_SIMILAR);
        Self::Similar(similar.into_iter().map(str::to_owned).collect())
    }

    /// Those of `names` that resemble `wanted`; all names if none does and there are few.
    #[must_use]
    pub fn similar_or_all<'a>(wanted: &str, names: impl Iterator<Item = &'a str> + Clone) -> Self {
        let similar = closest_names(wanted, names.clone(), MAX_SIMILAR);
        if similar.is_empty() {
            let all: Vec<&str> = names.take(MAX_ALL + 1).collect();
            if all.len() <= MAX_ALL {
                return Self::All(all.into_iter().map(str::to_owned).collect());
            }
        }
        Self::Similar(similar.into_iter().map(str::to_owned).collect())
    }
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Similar(names) => match quoted(names).as_slice() {
                [] => Ok(()),
                [name] => write!(f, "; did you mean {name}?"),
                [names @ .., last] => write!(f, "; did you mean {} or {last}?", names.join(", ")),
            },
            Self::All(names) => match quoted(names).as_slice() {
                [] => Ok(()),
                [name] => write!(f, "; there is only {name}"),
                names => write!(f, "; there are {}", names.join(", ")),
            },
        }
    }
}

fn quoted(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("`{name}`")).collect()
}

/// At most `max` of `names` that resemble `wanted`, best first: only those equal but for case or
/// path if there are any.
fn closest_names<'a>(
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
    let equal = scored.partition_point(|(score, _)| *score <= EQUAL);
    scored
        .into_iter()
        .take(if equal > 0 { equal.min(max) } else { max })
        .map(|(_, name)| name)
        .collect()
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
        assert_eq!(closest_names("abcdef", ["abxxef", "abcxef"], 2), ["abcxef", "abxxef"]);
        assert_eq!(closest_names("abcdef", ["abcxef", "ABCDEF"], 2), ["ABCDEF"]);
    }

    #[test]
    fn a_name_further_away_than_the_maximum_has_no_distance() {
        assert_eq!(distance("kitten", "sitting", 3), Some(3));
        assert_eq!(distance("kitten", "sitting", 2), None);
    }

    #[test]
    fn few_names_are_all_listed_if_none_is_similar() {
        let text = |wanted: &str, names: &[&str]| {
            Suggestion::similar_or_all(wanted, names.iter().copied()).to_string()
        };
        assert_eq!(text("Events", &["tree", "meta"]), "; there are `tree`, `meta`");
        assert_eq!(text("Events", &["tree"]), "; there is only `tree`");
        assert_eq!(text("Events", &["x"; 11]), "");
        assert_eq!(text("tre", &["tree", "meta"]), "; did you mean `tree`?");
    }

    #[test]
    fn similar_names_end_the_message_as_a_question() {
        let text = |names: &[&str]| Suggestion::similar("pt", names.iter().copied()).to_string();
        assert_eq!(text(&["eta"]), "");
        assert_eq!(text(&["Pt"]), "; did you mean `Pt`?");
        assert_eq!(text(&["Pt", "jets.pt"]), "; did you mean `Pt` or `jets.pt`?");
        assert_eq!(text(&["p", "ptx", "pz"]), "; did you mean `p`, `ptx` or `pz`?");
        assert_eq!(text(&["p", "Pt", "pz", "x.pt"]), "; did you mean `Pt` or `x.pt`?");
    }
}

//! Names to suggest in place of one that does not exist.

use hither_core::error::suggest::closest_names;

/// Most names offered.
const OFFERED: usize = 5;

/// Up to five of `names` that resemble `wanted`. Where nothing resembles it and there are few
/// names, all of them.
pub(crate) fn near<'a>(wanted: &str, names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let near = closest_names(wanted, names.clone(), OFFERED);
    let few: Vec<_> = names.take(2 * OFFERED + 1).collect();
    let offered = if near.is_empty() && few.len() <= 2 * OFFERED { few } else { near };
    offered.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_are_all_offered_when_none_is_near() {
        assert_eq!(near("Events", ["tree", "meta"].into_iter()), ["tree", "meta"]);
        let many: Vec<String> = (0..50).map(|i| format!("column{i}")).collect();
        assert!(near("zz", many.iter().map(String::as_str)).is_empty());
    }
}

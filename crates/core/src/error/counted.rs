//! Numbers and nouns in sentences.

/// A number and the noun that it counts, with the plural that agrees: `1 entry`, `2 entries`.
pub fn counted(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    match noun.strip_suffix('y') {
        _ if number == 1 => format!("1 {noun}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_agree() {
        assert_eq!(counted(1_u64, "round trip"), "1 round trip");
        assert_eq!(counted(0_u64, "request"), "0 requests");
        assert_eq!(counted(2_usize, "entry"), "2 entries");
        assert_eq!(counted(1_usize, "entry"), "1 entry");
    }
}

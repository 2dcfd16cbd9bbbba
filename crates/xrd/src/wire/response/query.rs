//! Responses to queries, as text of many kinds.

use crate::wire::{MAX_ELEMENT_BYTES, VectorLimits, WireError, before_nul};

/// Decodes the values of the settings of one query, in their order; `None` if the server does not
/// know the setting: it then returns the setting's name.
///
/// # Errors
/// There are more or fewer lines than settings.
pub fn config(asked: &[&str], answer: &[u8]) -> Result<Vec<Option<String>>, WireError> {
    let bytes = before_nul(answer);
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = text.trim_end_matches('\n').split('\n').collect();
    if lines.len() != asked.len() {
        return Err(WireError::text(
            "the answer to a query of settings",
            bytes,
            "a line for each setting",
        ));
    }
    Ok(asked
        .iter()
        .zip(lines)
        .map(|(name, line)| (*name != line).then(|| line.to_owned()))
        .collect())
}

/// Decodes the limits of vector reads from the response to a query of `readv_ior_max
/// readv_iov_max`, clamped to those that every server accepts.
#[must_use]
pub fn vector_limits(answer: &[u8]) -> Option<VectorLimits> {
    let values = config(&["readv_ior_max", "readv_iov_max"], answer).ok()?;
    let mut numbers = values.into_iter().map(|value| value?.trim().parse::<u64>().ok());
    let (element_bytes, elements) = (numbers.next()??, numbers.next()??);
    let usual = VectorLimits::default();
    Some(
        VectorLimits {
            elements: usize::try_from(elements).unwrap_or(usual.elements),
            element_bytes: u32::try_from(element_bytes).unwrap_or(MAX_ELEMENT_BYTES),
            ..usual
        }
        .clamped(),
    )
}

/// Decodes a checksum, `algorithm value`. Returns it in lower case.
///
/// # Errors
/// There are not two words.
pub fn checksum(answer: &[u8]) -> Result<(String, String), WireError> {
    let bytes = before_nul(answer);
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let mut words = text.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some(algorithm), Some(value)) => Ok((algorithm.to_owned(), value.to_owned())),
        _ => Err(WireError::text("a checksum", bytes, "\"algorithm value\"")),
    }
}

/// The space behind a path, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpaceInfo {
    /// The total.
    pub total: Option<u64>,
    /// The free space.
    pub free: Option<u64>,
    /// The used space.
    pub used: Option<u64>,
    /// The quota.
    pub quota: Option<u64>,
}

impl SpaceInfo {
    /// Decodes `oss.cgroup=…&oss.space=…&oss.free=…&oss.used=…&oss.quota=…`; a quota of -1 means
    /// none.
    #[must_use]
    pub fn parse(answer: &[u8]) -> Self {
        let text = String::from_utf8_lossy(before_nul(answer));
        let mut space = Self::default();
        for (name, value) in text.split('&').filter_map(|word| word.split_once('=')) {
            let value = value.trim().parse().ok();
            match name {
                "oss.space" => space.total = value,
                "oss.free" => space.free = value,
                "oss.used" => space.used = value,
                "oss.quota" => space.quota = value,
                _ => {}
            }
        }
        space
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_unknown_to_the_server_are_none() {
        let asked = ["readv_iov_max", "nonsense"];
        assert_eq!(config(&asked, b"1024\nnonsense\n\0").unwrap(), [Some("1024".into()), None]);
        assert!(config(&asked, b"1024\n\0").is_err());
    }

    #[test]
    fn limits_are_believed_downwards_only() {
        let usual = VectorLimits::default();
        assert_eq!(vector_limits(b"2097136\n1024\n"), Some(usual));
        assert_eq!(vector_limits(b"8388592\n178956970\n"), Some(usual));
        let small = vector_limits(b"65536\n16").unwrap();
        assert_eq!((small.element_bytes, small.elements), (65_536, 16));
        assert_eq!(vector_limits(b"readv_ior_max\nreadv_iov_max"), None);
        assert_eq!(vector_limits(b""), None);
    }

    #[test]
    fn checksums_and_space() {
        assert_eq!(checksum(b"adler32 0A0B0c0d\0").unwrap(), ("adler32".into(), "0a0b0c0d".into()));
        assert!(checksum(b"none").is_err());
        let space = SpaceInfo::parse(
            b"oss.cgroup=default&oss.space=9&oss.free=8&oss.maxf=7&oss.used=1&oss.quota=-1",
        );
        assert_eq!(space, SpaceInfo { total: Some(9), free: Some(8), used: Some(1), quota: None });
    }
}

//! A text that is never printed.

use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// A token, password or header value: never printed or logged, overwritten in memory when its last
/// clone is dropped.
///
/// The only way to read it is a call that is easy to search for: [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Wraps `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(Zeroizing::new(text.into())))
    }

    /// The text itself, to be sent.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Replaces every occurrence of the secret in `text`: servers sometimes repeat values of the
    /// request.
    pub(crate) fn redacted(&self, text: &str) -> String {
        match self.expose() {
            "" => text.to_owned(),
            secret => text.replace(secret, "(secret)"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_it_is_printed() {
        let secret = Secret::new("hush");
        assert_eq!(
            format!("{secret} {secret:?} {:?}", Some(&secret)),
            "(secret) (secret) Some((secret))"
        );
        assert_eq!(secret.redacted("hush was wrong, hush"), "(secret) was wrong, (secret)");
        assert_eq!(Secret::new("").redacted("as it is"), "as it is");
    }
}

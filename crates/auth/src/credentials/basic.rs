//! User name and password (RFC 7617).

use crate::error::{AuthError, Result};
use crate::secret::Secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// A user name and a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basic {
    user: String,
    password: Secret,
}

impl Basic {
    /// Pairs a user name with its password.
    ///
    /// # Errors
    ///
    /// [`AuthError::Invalid`] if the name contains a colon, or either contains a control character
    /// (RFC 7617 section 2).
    pub fn new(user: impl Into<String>, password: Secret) -> Result<Self> {
        let user = user.into();
        let wrong = |why| Err(AuthError::Invalid { text: user.clone(), why });
        if user.contains(':') {
            return wrong("is not a valid user name: it contains a colon");
        }
        if user.chars().any(char::is_control) {
            return wrong("is not a valid user name: it contains a control character");
        }
        if password.expose().chars().any(char::is_control) {
            return wrong("has a password that contains a control character");
        }
        Ok(Self { user, password })
    }

    /// The user name.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The value of the `Authorization` field.
    pub(crate) fn header(&self) -> Secret {
        let pair = Zeroizing::new(format!("{}:{}", self.user, self.password.expose()));
        Secret::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
    }

    /// Removes password and header from `text`, in case a server repeats them.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let header = self.header();
        let encoded = Secret::new(header.expose().trim_start_matches("Basic "));
        self.password.redacted(&encoded.redacted(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_that_of_the_rfc() {
        let basic = Basic::new("Aladdin", Secret::new("open sesame")).unwrap();
        assert_eq!(basic.header().expose(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(!format!("{basic:?}").contains("sesame"));
    }

    #[test]
    fn what_cannot_be_sent_is_refused_without_the_password() {
        for (user, password) in [("a:b", "x"), ("a\nb", "x"), ("a", "hu\r\nsh")] {
            let error = Basic::new(user, Secret::new(password)).unwrap_err().to_string();
            assert!(!error.contains("hu"), "{error}");
        }
    }
}

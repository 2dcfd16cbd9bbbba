//! Errors of credentials before they are sent to a server.

use std::path::PathBuf;

/// A result with this crate's [`AuthError`].
pub type Result<T, E = AuthError> = std::result::Result<T, E>;

/// Reason why a credential cannot be used. No message contains any part of a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A file is missing, or the system denies reading it.
    #[error("cannot read the {what} {}", path.display())]
    Unreadable {
        /// Its purpose: `token file`, `key`.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Other users have access to the file, and so could use the credential.
    #[error(
        "the {what} {} is accessible to other users (mode {mode:03o}) and was not used: run `chmod 600` on it",
        path.display()
    )]
    Exposed {
        /// Its purpose.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file belongs to another user.
    #[error("the {what} {} belongs to user {owner}, expected {uid}, and was not used", path.display())]
    Foreign {
        /// Its purpose.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Numeric id of its owner.
        owner: u32,
        /// Numeric id of the user.
        uid: u32,
    },
    /// The content is not a token, key or certificate.
    #[error("{place}: {why}")]
    Malformed {
        /// The file, variable or command.
        place: String,
        /// The defect, and what was expected.
        why: String,
    },
    /// The token command did not print a token.
    #[error("the token command {why}")]
    Command {
        /// Its failure.
        why: String,
        /// The system's error, if it caused this one.
        source: Option<std::io::Error>,
    },
    /// A certificate or proxy is no longer valid, or not yet.
    #[error("the {what} {} {why}", path.display())]
    Validity {
        /// `X.509 proxy` or `client certificate`.
        what: &'static str,
        /// Its file.
        path: PathBuf,
        /// The time since when it is invalid, and what to do.
        why: String,
    },
    /// A file that a variable of the environment names cannot be used.
    #[error("{variable} names a file that cannot be used")]
    OfVariable {
        /// The variable.
        variable: &'static str,
        /// The problem.
        source: Box<Self>,
    },
    /// The private key is protected by a pass phrase.
    #[error(
        "the key {} is encrypted, which is not supported: create a proxy (`voms-proxy-init`) or an unencrypted copy \
         (`openssl pkey`) that only you can read",
        path.display()
    )]
    EncryptedKey {
        /// Its file.
        path: PathBuf,
    },
    /// A URL, pattern or name of the configuration is invalid.
    #[error("{text:?} {why}")]
    Invalid {
        /// The text.
        text: String,
        /// The defect, and what was expected.
        why: &'static str,
    },
}

impl AuthError {
    pub(crate) fn malformed(place: impl std::fmt::Display, why: impl Into<String>) -> Self {
        Self::Malformed { place: place.to_string(), why: why.into() }
    }

    /// The error of a file that a variable names.
    pub(crate) fn of_variable(variable: &'static str) -> impl Fn(Self) -> Self {
        move |error| Self::OfVariable { variable, source: Box::new(error) }
    }

    /// Formats this error and its cause in one line.
    pub(crate) fn line(&self) -> String {
        match std::error::Error::source(self) {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }
}

//! What can be wrong with credentials before a server has seen them.

use std::path::PathBuf;

/// A result with this crate's [`AuthError`].
pub type Result<T, E = AuthError> = std::result::Result<T, E>;

/// Why a credential cannot be used. No message holds any part of a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A file is missing or the system does not let us read it.
    #[error("cannot read the {what} {}", path.display())]
    Unreadable {
        /// What the file should hold: `token file`, `key`.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Others could use the credential: the file is readable by them.
    #[error(
        "the {what} {} can be read by others (mode {mode:03o}), so it is not used: run `chmod 600` on it",
        path.display()
    )]
    Exposed {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody else put the file there.
    #[error("the {what} {} belongs to user {owner}, expected {uid}: it is not used", path.display())]
    Foreign {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Numeric id of its owner.
        owner: u32,
        /// Numeric id of the user.
        uid: u32,
    },
    /// What lies or comes from there is no token, key or certificate.
    #[error("{place}: {why}")]
    Malformed {
        /// File, variable or command.
        place: String,
        /// What was seen and what was expected.
        why: String,
    },
    /// The command that should print a token did not.
    #[error("the token command {why}")]
    Command {
        /// What it did instead.
        why: String,
        /// What the system said, if it was the system.
        source: Option<std::io::Error>,
    },
    /// A certificate or proxy is no longer valid, or not yet.
    #[error("the {what} {} {why}", path.display())]
    Validity {
        /// `X.509 proxy` or `client certificate`.
        what: &'static str,
        /// Its file.
        path: PathBuf,
        /// Since when it is invalid, and what to do.
        why: String,
    },
    /// A private key that only a pass phrase opens.
    #[error(
        "the key {} is encrypted, which is not supported: make a proxy of it (`voms-proxy-init`) or an unencrypted copy \
         (`openssl pkey`) that only you can read",
        path.display()
    )]
    EncryptedKey {
        /// Its file.
        path: PathBuf,
    },
    /// A URL or pattern of the configuration that makes no sense.
    #[error("{text:?} {why}")]
    Invalid {
        /// What was given.
        text: String,
        /// What was expected.
        why: &'static str,
    },
}

impl AuthError {
    pub(crate) fn malformed(place: impl std::fmt::Display, why: impl Into<String>) -> Self {
        Self::Malformed { place: place.to_string(), why: why.into() }
    }

    /// This error and its cause in one line.
    pub(crate) fn line(&self) -> String {
        match std::error::Error::source(self) {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }
}

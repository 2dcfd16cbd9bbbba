//! The environment as a value, so that only the command reads the environment of the process.

use crate::secret::Secret;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The variables that name credentials, and the user who has to own their files.
///
/// Values are [`Secret`]s, because `BEARER_TOKEN` is one.
#[derive(Debug, Clone)]
pub struct Environment {
    variables: BTreeMap<String, Secret>,
    uid: u32,
}

impl Environment {
    /// The variables that [`crate::CredentialConfig::discover`] reads.
    pub const VARIABLES: [&str; 9] = [
        "BEARER_TOKEN",
        "BEARER_TOKEN_FILE",
        "XDG_RUNTIME_DIR",
        "X509_USER_PROXY",
        "X509_USER_CERT",
        "X509_USER_KEY",
        "X509_CERT_DIR",
        "NETRC",
        "HOME",
    ];

    /// An environment without variables, of the user `uid`.
    #[must_use]
    pub fn new(uid: u32) -> Self {
        Self { variables: BTreeMap::new(), uid }
    }

    /// Sets `name`. An empty value removes it.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        let value: String = value.into();
        if value.trim().is_empty() {
            self.variables.remove(name);
        } else {
            self.variables.insert(name.to_owned(), Secret::new(value));
        }
        self
    }

    /// The numeric id of the user.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The value of a variable, if it is set.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&Secret> {
        self.variables.get(name)
    }

    /// The value of a variable as a path.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(|value| PathBuf::from(value.expose()))
    }
}

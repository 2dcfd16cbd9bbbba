//! The table `[auth]` of the settings.

use crate::authorization::jwks_cache::JwksCache;
use crate::authorization::oidc_discovery::KeyDiscovery;
use crate::authorization::policy_authorizer::PolicyAuthorizer;
use crate::connection::client_authorities::ClientAuthorities;
use hither_auth::{Action, Grant, Issuer, Jwks, PathPrefix, Policy};
use hither_core::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

/// The table `[auth]`: which client may do what. With this table, everything that it does not allow
/// is denied.
///
/// ```
/// use hither_server::Settings;
///
/// let text = r#"
///     root = "/data"
///     write = true
///     [auth]
///     audience = ["https://se.example:8443"]
///     anonymous = ["/public"]
///     [[auth.issuers]]
///     url = "https://iam.example/"
///     base = ["/atlas"]
///     [[auth.issuers.groups]]
///     name = "/atlas/production"
///     folder = "/atlas"
///     allow = ["read", "create", "modify"]
///     [[auth.certificates]]
///     subject = "C=CH, O=Grid, CN=Alice"
///     folder = "/users/alice"
///     allow = ["read", "create", "modify"]
/// "#;
/// assert!(Settings::from_toml(text)?.auth.is_some());
/// # Ok::<(), hither_core::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AuthSettings {
    /// Names of this server in the claim `aud` of tokens.
    pub audience: Vec<String>,
    /// Folders that every client may read.
    pub anonymous: Vec<String>,
    /// Accepts tokens without `[tls]` at addresses other than loopback, as behind a proxy that has
    /// the certificate. Everybody on the way can read the tokens, and use them.
    pub clear_text: bool,
    /// Issuers whose tokens are accepted.
    pub issuers: Vec<IssuerSettings>,
    /// Permissions of client certificates.
    pub certificates: Vec<CertificateSettings>,
    /// Certificate authorities for client certificates: a folder as grids have it, or a file in
    /// PEM. Its revocation lists (`*.r0`) and signing policies (`*.signing_policy`) apply. The
    /// server reads all of it again when a file changes.
    pub authorities: Option<PathBuf>,
    /// Use of revocation lists: `use` refuses the certificates that a list names; `require` also
    /// refuses those of an authority that has no list, or only one that is out of date.
    pub crls: CrlChecks,
}

/// An issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct IssuerSettings {
    /// The value of the claim `iss`; the keys are discovered below this URL, unless `keys` is set.
    pub url: String,
    /// Folders that the paths of the issuer's scopes are relative to.
    #[serde(default = "root")]
    pub base: Vec<String>,
    /// A file with the issuer's keys (a JSON Web Key Set), in place of those that it publishes.
    #[serde(default)]
    pub keys: Option<PathBuf>,
    /// Permissions of the issuer's groups, for tokens without a storage scope.
    #[serde(default)]
    pub groups: Vec<GroupSettings>,
}

/// The permissions of a group.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct GroupSettings {
    /// The name in the claim `wlcg.groups`.
    pub name: String,
    /// The folder in which the members have the permissions.
    pub folder: String,
    /// The actions that are allowed.
    pub allow: Vec<AllowedAction>,
}

/// The permissions of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct CertificateSettings {
    /// The distinguished name of the certificate, in its order and with the escapes of RFC 4514: a
    /// backslash before a comma in a value. A proxy has the name of the certificate behind it.
    pub subject: String,
    /// The folder in which its holder has the permissions.
    pub folder: String,
    /// The actions that are allowed.
    pub allow: Vec<AllowedAction>,
}

/// The use of revocation lists of certificate authorities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CrlChecks {
    /// Lists that are there are used, also when they are out of date.
    #[default]
    Use,
    /// Every authority needs a list that is in date.
    Require,
}

/// An action that is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AllowedAction {
    /// Read files and list folders.
    Read,
    /// Create files and folders.
    Create,
    /// Change, replace, move or remove files and folders; includes `create`.
    Modify,
}

fn root() -> Vec<String> {
    vec!["/".to_owned()]
}

impl AuthSettings {
    /// The authorities for client certificates.
    pub(crate) fn authorities(&self) -> Result<Option<ClientAuthorities>> {
        match &self.authorities {
            Some(place) => Ok(Some(ClientAuthorities { place: place.clone(), crls: self.crls })),
            None if self.certificates.is_empty() => Ok(None),
            None => Err(invalid("auth.certificates needs auth.authorities".into())),
        }
    }

    /// The authorizer that decides by these settings.
    pub(crate) fn guard(
        &self,
        write: bool,
        discovery: Arc<dyn KeyDiscovery>,
    ) -> Result<PolicyAuthorizer> {
        let mut ring = JwksCache::default();
        for issuer in &self.issuers {
            ring.add(&issuer.url, issuer.keys()?);
        }
        Ok(PolicyAuthorizer::new(self.policy()?, write, ring, discovery))
    }

    fn policy(&self) -> Result<Policy> {
        let issuers =
            self.issuers.iter().map(IssuerSettings::issuer).collect::<Result<Vec<_>>>()?;
        for (n, issuer) in issuers.iter().enumerate() {
            if issuers.iter().take(n).any(|other| other.url == issuer.url) {
                return Err(invalid(format!("auth.issuers has {} twice", issuer.url)));
            }
        }
        let anonymous = self.anonymous.iter().map(|path| grant(path, &[AllowedAction::Read]));
        let certificates = self.certificates.iter().map(|certificate| {
            let CertificateSettings { subject, folder, allow } = certificate;
            let subject = subject.parse();
            let subject =
                subject.map_err(|error| invalid(format!("auth.certificates: {error}")))?;
            Ok((subject, grant(folder, allow)?))
        });
        Ok(Policy {
            audiences: self.audience.clone(),
            issuers,
            anonymous: anonymous.collect::<Result<_>>()?,
            certificates: certificates.collect::<Result<_>>()?,
        })
    }
}

impl IssuerSettings {
    fn issuer(&self) -> Result<Issuer> {
        let host = self.url.strip_prefix("http://").and_then(|rest| rest.split('/').next());
        let is_local = host.is_some_and(|host| {
            ["127.0.0.1", "localhost", "[::1]"].iter().any(|local| {
                let port = host.strip_prefix(local);
                port.is_some_and(|port| port.is_empty() || port.starts_with(':'))
            })
        });
        if !self.url.starts_with("https://") && !is_local && self.keys.is_none() {
            let what = "keys are fetched over https only; name a file with `keys`";
            return Err(invalid(format!("auth.issuers: {} is not an https URL: {what}", self.url)));
        }
        let bases = self.base.iter().map(|path| folder(path)).collect::<Result<_>>()?;
        let groups = self.groups.iter().map(|group| {
            let GroupSettings { name, folder, allow } = group;
            Ok((name.clone(), grant(folder, allow)?))
        });
        Ok(Issuer { url: self.url.clone(), bases, groups: groups.collect::<Result<_>>()? })
    }

    fn keys(&self) -> Result<Option<Jwks>> {
        let Some(path) = &self.keys else { return Ok(None) };
        let cannot = |error: &dyn std::fmt::Display| {
            let url = &self.url;
            let path = path.display();
            invalid(format!("cannot read the keys of {url} from {path}: {error}"))
        };
        let text = std::fs::read(path).map_err(|error| cannot(&error))?;
        Jwks::parse(&text).map(Some).map_err(|error| cannot(&error))
    }
}

fn grant(path: &str, allow: &[AllowedAction]) -> Result<Grant> {
    let actions = allow.iter().flat_map(|allowed| match allowed {
        AllowedAction::Read => [Action::Read, Action::List].as_slice(),
        AllowedAction::Create => &[Action::Create],
        AllowedAction::Modify => &[Action::Create, Action::Modify],
    });
    Ok(Grant { folder: folder(path)?, actions: actions.copied().collect() })
}

fn folder(path: &str) -> Result<PathPrefix> {
    let found = path.starts_with('/').then(|| PathPrefix::of(path)).flatten();
    found.ok_or_else(|| invalid(format!("auth: {path:?} is not an absolute path like \"/data\"")))
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Result<Policy> {
        toml::from_str::<AuthSettings>(text)
            .map_err(|error| invalid(error.to_string()))
            .and_then(|settings| settings.policy())
    }

    #[test]
    fn an_empty_table_allows_nothing() {
        assert_eq!(policy("").unwrap(), Policy::default());
    }

    #[test]
    fn modify_includes_create_and_read_includes_lists() {
        let text = r#"
            anonymous = ["/pub"]
            [[certificates]]
            subject = "CN=a"
            folder = "/a"
            allow = ["modify"]
        "#;
        let policy = policy(text).unwrap();
        assert_eq!(policy.anonymous[0].actions, [Action::Read, Action::List]);
        assert_eq!(policy.certificates[0].1.actions, [Action::Create, Action::Modify]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("anonymus = []", "anonymus"),
            ("anonymous = ['pub']", "pub"),
            ("anonymous = ['/a/../b']", "/a/../b"),
            ("[[issuers]]\nurl = 'http://iam.example'", "not an https URL"),
            ("[[issuers]]\nurl = 'http://localhost.evil'", "not an https URL"),
            ("[[issuers]]\nurl = 'iam'", "not an https URL"),
            ("[[issuers]]\nurl = 'https://a'\n[[issuers]]\nurl = 'https://a'", "twice"),
            ("[[issuers]]\nurl = 'https://a'\nbase = ['x']", "\"x\""),
            ("[[certificates]]\nsubject = 'a'\nfolder = '/'\nallow = ['write']", "write"),
            (
                "[[certificates]]\nsubject = 'a'\nfolder = '/'\nallow = ['read']",
                "distinguished name",
            ),
            ("crls = 'ignore'", "ignore"),
        ] {
            let error = policy(text).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        assert!(policy("[[issuers]]\nurl = 'http://[::1]:80/x'").is_ok());
        let keys = IssuerSettings {
            url: "https://a".to_owned(),
            base: vec![],
            keys: Some("/no/where".into()),
            groups: vec![],
        };
        assert!(keys.keys().unwrap_err().to_string().contains("/no/where"));
    }
}

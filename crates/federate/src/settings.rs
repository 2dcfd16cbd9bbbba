//! The configuration of a federation: that of a server, and three additional tables.

use crate::sites::SiteSettings;
use hither_core::error::{Error, ErrorKind, Result, invalid_toml};
use hither_server::{Cidr, Settings};
use serde::Deserialize;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

/// A configuration file of `hither federate`.
///
/// ```
/// use hither_federate::FederationConfig;
///
/// let config = FederationConfig::from_toml(r#"
///     listen = ["0.0.0.0:8443"]
///     [federation]
///     deadline_seconds = 2.0
///     [[sites]]
///     name = "ch"
///     networks = ["192.0.2.0/24"]
///     [[endpoints]]
///     name = "geneva"
///     url = "https://dav.example/eos"
///     site = "ch"
///     prefixes = [{ path = "/store", target = "/cms" }]
/// "#)?;
/// assert_eq!(config.endpoints[0].name, "geneva");
/// # Ok::<(), hither_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FederationConfig {
    /// The settings of the server.
    pub server: Settings,
    /// Rules for requests to endpoints, and for the caches of their answers.
    pub federation: FederationSettings,
    /// The sites.
    pub sites: Vec<SiteSettings>,
    /// The endpoints; earlier ones decide in a tie.
    pub endpoints: Vec<EndpointSettings>,
}

/// The tables in addition to the settings of the server.
#[derive(Debug, Deserialize)]
struct OwnTables {
    #[serde(default)]
    federation: FederationSettings,
    #[serde(default)]
    sites: Vec<SiteSettings>,
    #[serde(default)]
    endpoints: Vec<EndpointSettings>,
}

impl FederationConfig {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], with the key and the expectation.
    pub fn from_toml(text: &str) -> Result<Self> {
        let invalid = |error: toml::de::Error| invalid_toml(text, error.span(), error.message());
        let mut rest: toml::Table = toml::from_str(text).map_err(invalid)?;
        rest.retain(|name, _| !["federation", "sites", "endpoints"].contains(&name));
        let server = Settings::from_toml(&rest.to_string())?;
        // Parsed from the text, so that errors have line numbers.
        let OwnTables { federation, sites, endpoints } = toml::from_str(text).map_err(invalid)?;
        let config = Self { server, federation, sites, endpoints };
        config.check()?;
        Ok(config)
    }

    /// Fails for values that make no sense.
    fn check(&self) -> Result<()> {
        let Self { server, federation, sites, endpoints } = self;
        if !server.root.as_os_str().is_empty() {
            return Err(invalid("root: a federation serves no directory of its own".to_owned()));
        }
        if server.lots.is_some() || server.tape.is_some() || !server.replicas.is_empty() {
            let what =
                "lots, tape and replicas are settings of `hither serve`, not of a federation";
            return Err(invalid(what.to_owned()));
        }
        federation.check()?;
        if endpoints.is_empty() || endpoints.len() > usize::from(u16::MAX) {
            return Err(invalid(format!(
                "endpoints: there are {}, expected 1 to 65535 tables [[endpoints]]",
                endpoints.len()
            )));
        }
        let labels: HashSet<&str> = sites.iter().map(|site| &*site.name).collect();
        unique("sites", sites.iter().map(|site| &*site.name))?;
        for site in sites {
            if let Some(label) = site.near.iter().find(|label| !labels.contains(&***label)) {
                return Err(no_site(&format!("sites: {}: near", site.name), label, &labels));
            }
        }
        unique("endpoints", endpoints.iter().map(|endpoint| &*endpoint.name))?;
        let names = endpoints.iter().map(|endpoint| &*endpoint.name).collect();
        endpoints.iter().try_for_each(|endpoint| endpoint.check(&labels, &names))
    }
}

/// Fails if two tables have the same name.
fn unique<'a>(tables: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(invalid(format!("{tables}: two of them are called {name:?}")));
        }
    }
    Ok(())
}

/// The error for the label of an unknown site.
fn no_site(place: &str, label: &str, labels: &HashSet<&str>) -> Error {
    let mut known: Vec<_> = labels.iter().copied().collect();
    known.sort_unstable();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    invalid(format!("{place}: there is no [[sites]] called {label:?}, only {known}"))
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

/// Rules for requests to endpoints, and for the caches of their answers, which are in memory only.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FederationSettings {
    /// Seconds after which an endpoint that has not responded to the lookup of a name counts as not
    /// having answered.
    pub deadline_seconds: f64,
    /// The same for the listing of a directory, and for a change.
    pub listing_deadline_seconds: f64,
    /// The entry that counts while some endpoints have not answered.
    pub agreement: Agreement,
    /// Seconds after which the majority of the endpoints that have answered decides, without the
    /// others.
    pub agreement_seconds: f64,
    /// Treats files of one path and size as different if their dates differ, or are not stated: for
    /// endpoints that keep the dates of their files.
    pub compare_dates: bool,
    /// Seconds for which the endpoints that have a name are remembered.
    pub positive_seconds: f64,
    /// Seconds for which it is remembered that no endpoint has a name.
    pub negative_seconds: f64,
    /// Seconds for which a complete listing is remembered.
    pub listing_seconds: f64,
    /// Maximum of names and listings in memory, in bytes.
    pub cache_bytes: usize,
    /// Seconds within which a client that requests the same file again is redirected to the next
    /// endpoint; 0 for never.
    pub return_seconds: f64,
    /// Seconds between two probes of an endpoint.
    pub probe_seconds: f64,
    /// Deletions through the federation.
    pub deletes: DeletePolicy,
    /// Reads files for clients that cannot follow a redirect to any of their endpoints, such as
    /// HTTP clients of files that only an XRootD server or an object store has.
    pub relay: bool,
    /// Networks without public addresses where the federation follows redirects of its endpoints.
    pub networks: Vec<String>,
    /// The folder of the file with the directories that endpoints have listed, if it is kept.
    pub state: Option<PathBuf>,
}

/// The entry that counts while some endpoints have not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// That of most endpoints, as soon as those that have not answered cannot change it, or
    /// [`FederationSettings::agreement_seconds`] have passed.
    Majority,
    /// That of the first endpoint that has one.
    First,
}

/// Deletions through the federation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeletePolicy {
    /// None.
    Refuse,
    /// From all endpoints that have the name. They must all be writable, and have answered.
    All,
}

impl Default for FederationSettings {
    fn default() -> Self {
        Self {
            deadline_seconds: 3.0,
            listing_deadline_seconds: 10.0,
            agreement: Agreement::Majority,
            agreement_seconds: 1.0,
            compare_dates: false,
            positive_seconds: 60.0,
            negative_seconds: 5.0,
            listing_seconds: 10.0,
            cache_bytes: 256 << 20,
            return_seconds: 5.0,
            probe_seconds: 10.0,
            deletes: DeletePolicy::Refuse,
            relay: true,
            networks: Vec::new(),
            state: None,
        }
    }
}

impl FederationSettings {
    fn check(&self) -> Result<()> {
        for (name, seconds, least) in [
            ("deadline_seconds", self.deadline_seconds, 0.001),
            ("listing_deadline_seconds", self.listing_deadline_seconds, 0.001),
            ("agreement_seconds", self.agreement_seconds, 0.0),
            ("positive_seconds", self.positive_seconds, 0.0),
            ("negative_seconds", self.negative_seconds, 0.0),
            ("listing_seconds", self.listing_seconds, 0.0),
            ("return_seconds", self.return_seconds, 0.0),
            ("probe_seconds", self.probe_seconds, 0.1),
        ] {
            if !(least..=1e6).contains(&seconds) {
                return Err(invalid(format!(
                    "federation.{name} is {seconds}, expected {least} to 1e6 seconds"
                )));
            }
        }
        self.parsed_networks()?;
        if self.cache_bytes < 1 << 20 {
            let what = "expected at least 1048576";
            return Err(invalid(format!("federation.cache_bytes is {}, {what}", self.cache_bytes)));
        }
        Ok(())
    }

    /// The networks.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for text that is not a network.
    pub fn parsed_networks(&self) -> Result<Vec<Cidr>> {
        let parse = |text: &String| {
            let wrong = || {
                let what = "is not a network like 10.0.0.0/8";
                invalid(format!("federation.networks: {text:?} {what}"))
            };
            Cidr::parse(text).ok_or_else(wrong)
        };
        self.networks.iter().map(parse).collect()
    }

    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_secs_f64(self.deadline_seconds)
    }

    pub(crate) fn listing_deadline(&self) -> Duration {
        Duration::from_secs_f64(self.listing_deadline_seconds)
    }

    pub(crate) fn agreement_time(&self) -> Duration {
        Duration::from_secs_f64(self.agreement_seconds)
    }

    pub(crate) fn probe_interval(&self) -> Duration {
        Duration::from_secs_f64(self.probe_seconds)
    }
}

/// A storage of the federation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EndpointSettings {
    /// The name, for messages, metrics and the status page.
    pub name: String,
    /// The URL at which the federation accesses it: `http`, `https`, `dav`, `davs`, `root`,
    /// `roots`, `s3`.
    pub url: String,
    /// The URLs to which clients are redirected, in place of `url`: the same directory, possibly by
    /// other protocols. An HTTP client gets the first one that it can follow.
    #[serde(default)]
    pub redirects: Option<Vec<String>>,
    /// Allows clients to write there.
    #[serde(default)]
    pub write: bool,
    /// Its share of the clients, compared with equally near endpoints.
    #[serde(default = "one")]
    pub weight: f64,
    /// The label of its site.
    #[serde(default)]
    pub site: Option<String>,
    /// Directories of the federation, each with its directory below `url`. By default the root of
    /// the federation is `url`.
    #[serde(default = "root")]
    pub prefixes: Vec<PrefixSettings>,
    /// The credentials of the federation for this endpoint; by default those of its environment.
    #[serde(default)]
    pub credentials: EndpointCredentials,
}

impl EndpointSettings {
    /// Fails for values that make no sense; `labels` are those of the sites, `names` those of the
    /// endpoints.
    fn check(&self, labels: &HashSet<&str>, names: &HashSet<&str>) -> Result<()> {
        let place = |key: &str| format!("endpoints: {}: {key}", self.name);
        if !self.url.contains("://") {
            return Err(invalid(format!(
                "{}: the text has no scheme, expected a URL such as https://dav.example/data",
                place("url")
            )));
        }
        if self.redirects.iter().flatten().any(|url| has_secret(url)) {
            return Err(invalid(format!(
                "{}: a URL has a user or a query, which every client would get",
                place("redirects"),
            )));
        }
        if let Some(label) = self.site.as_deref().filter(|label| !labels.contains(label)) {
            return Err(no_site(&place("site"), label, labels));
        }
        if !(self.weight > 0.0 && self.weight.is_finite()) {
            let weight = place("weight");
            return Err(invalid(format!("{weight} is {}, expected more than 0", self.weight)));
        }
        for PrefixSettings { path, target, copy_of } in &self.prefixes {
            let key = place("prefixes: copy_of");
            if let Some(name) =
                copy_of.iter().find(|it| **it == self.name || !names.contains(&***it))
            {
                return Err(invalid(format!("{key}: {name:?} is no other endpoint")));
            }
            if self.write && !copy_of.is_empty() {
                let what = "new files are written to an endpoint with `write = true` alone, so it \
                            is a copy of no other";
                return Err(invalid(format!("{key}: {what}")));
            }
            for (key, text) in [("path", path), ("target", target)] {
                if !text.is_empty() && !text.starts_with('/') {
                    return Err(invalid(format!(
                        "{}: {key} is {text:?}, expected a path from the root such as \"/{text}\"",
                        place("prefixes")
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Returns true for a URL with a user, a password or a query, which no client may see.
pub(crate) fn has_secret(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@') || rest.contains(['?', '#'])
}

/// A directory of the federation at an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixSettings {
    /// The directory in the federation, such as `/store`.
    pub path: String,
    /// The directory below the URL of the endpoint.
    #[serde(default)]
    pub target: String,
    /// The names of endpoints that have all files that this one has there. A listing does not need
    /// this endpoint if one of them has answered.
    #[serde(default)]
    pub copy_of: Vec<String>,
}

/// The credentials of a federation for an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EndpointCredentials {
    /// A file with a bearer token; it is read again when it changes.
    pub token_file: Option<PathBuf>,
    /// A client certificate, PEM.
    pub cert: Option<PathBuf>,
    /// The key of the certificate, PEM.
    pub key: Option<PathBuf>,
    /// An X.509 proxy, PEM.
    pub proxy_cert: Option<PathBuf>,
    /// Further certificate authorities, PEM.
    pub ca: Option<PathBuf>,
    /// A folder of certificate authorities.
    pub ca_dir: Option<PathBuf>,
    /// Sends no credentials.
    pub anonymous: bool,
}

fn one() -> f64 {
    1.0
}

fn root() -> Vec<PrefixSettings> {
    vec![PrefixSettings { path: String::new(), target: String::new(), copy_of: Vec::new() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "[[sites]]\nname = 'x'\n";
    const ENDPOINT: &str = "[[endpoints]]\nname = 'a'\nurl = 'http://a.example/'\n";

    #[test]
    fn the_settings_of_a_server_stand_beside_those_of_the_federation() {
        let text = format!(
            "write = true\n[limits]\nranges = 7\n[federation]\ndeletes = 'all'\n{ENDPOINT}"
        );
        let config = FederationConfig::from_toml(&text).unwrap();
        assert!(config.server.write && config.server.limits.ranges == 7);
        assert_eq!(config.federation.deletes, DeletePolicy::All);
        assert_eq!(config.endpoints[0].prefixes, root());
    }

    #[test]
    fn an_error_names_the_key() {
        for (text, named) in [
            (String::new(), "[[endpoints]]"),
            (format!("root = '/x'\n{ENDPOINT}"), "root"),
            (format!("{ENDPOINT}{ENDPOINT}"), "\"a\""),
            (
                format!("{ENDPOINT}site = 'x'"),
                "endpoints: a: site: there is no [[sites]] called \"x\"",
            ),
            (format!("{ENDPOINT}weight = 0"), "endpoints: a: weight"),
            (format!("{ENDPOINT}colour = 1"), "line 4, column 1"),
            (
                format!("{ENDPOINT}prefixes = [{{ path = 'b' }}]"),
                "endpoints: a: prefixes: path is \"b\"",
            ),
            (ENDPOINT.replace("http://", ""), "endpoints: a: url: the text has no scheme"),
            (
                format!("{ENDPOINT}redirects = ['https://u:p@h/x']"),
                "endpoints: a: redirects: a URL has",
            ),
            (
                format!("{ENDPOINT}redirects = ['root://u@h//x']"),
                "endpoints: a: redirects: a URL has",
            ),
            (
                format!("{ENDPOINT}redirects = ['https://h/x?authz=s']"),
                "endpoints: a: redirects: a URL has",
            ),
            (
                format!("{ENDPOINT}prefixes = [{{ path = '/', copy_of = ['b'] }}]"),
                "endpoints: a: prefixes: copy_of: \"b\" is no other endpoint",
            ),
            (
                format!("{ENDPOINT}prefixes = [{{ path = '/', copy_of = ['a'] }}]"),
                "copy_of: \"a\" is no other endpoint",
            ),
            (
                format!(
                    "{ENDPOINT}write = true\nprefixes = [{{ path = '/', copy_of = ['b'] }}]\n{}",
                    ENDPOINT.replace("'a'", "'b'")
                ),
                "prefixes: copy_of: new files are written",
            ),
            (
                format!("[federation]\nnetworks = ['localhost']\n{ENDPOINT}"),
                "networks: \"localhost\"",
            ),
            (
                format!("{SITE}near = ['z']\n{ENDPOINT}"),
                "sites: x: near: there is no [[sites]] called \"z\"",
            ),
            (format!("{SITE}{SITE}{ENDPOINT}"), "sites: two of them are called \"x\""),
            (format!("[federation]\nprobe_seconds = 0\n{ENDPOINT}"), "probe_seconds"),
            (format!("[federation]\nspeed = 0\n{ENDPOINT}"), "speed"),
            (format!("colour = 1\n{ENDPOINT}"), "colour"),
        ] {
            let error = FederationConfig::from_toml(&text).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}

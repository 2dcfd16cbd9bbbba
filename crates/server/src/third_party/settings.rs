//! The table `[third_party]` of the settings: the servers with which files may be copied, and the
//! limits of copies.

use crate::third_party::cidr::Cidr;
use crate::third_party::egress_rules::EgressRules;
use hither_auth::{CredentialConfig, Credentials, HostPattern, TrustConfig};
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::TransportConfig;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Copies of files between this server and others (HTTP third-party copy). With this table, every
/// client that may write a file may have it fetched, and every client that may read one may have it
/// sent: over TLS, with hosts that have public addresses.
///
/// ```
/// use hither_server::Settings;
///
/// let text = r#"
///     root = "/data"
///     write = true
///     [third_party]
///     hosts = ["*.cern.ch", "se.example:8443"]
///     networks = ["10.1.0.0/16"]
///     authorities = "/etc/grid-security/certificates"
/// "#;
/// assert!(Settings::from_toml(text)?.third_party.is_some());
/// # Ok::<(), hither_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ThirdPartySettings {
    /// Hosts to connect to: `host`, `host:port`, `*.domain`, `*.domain:port`; all hosts if empty.
    pub hosts: Vec<String>,
    /// Ports and ranges of ports to connect to where the host's pattern names none: by default 443
    /// and those from 1024 on.
    pub ports: Vec<String>,
    /// Networks without public addresses to connect to, such as `10.0.0.0/8`, or single addresses.
    /// Connections to all other private addresses, including those of this machine, fail under any
    /// host name.
    pub networks: Vec<String>,
    /// Allows `http` as well as `https`; then everybody on the way sees files and tokens.
    pub clear_text: bool,
    /// Hosts, as in `hosts`, that get the credentials meant for the host that redirected to them.
    pub follow: Vec<String>,
    /// A directory of certificate authorities, as grids use, or a PEM file of them, trusted in
    /// addition to the system's. Without it, `/etc/grid-security/certificates` is used if it
    /// exists.
    pub authorities: Option<PathBuf>,
    /// The maximum number of concurrent copies; further ones get 503 and may be retried. A client
    /// gets no more than its share while others wait.
    pub transfers: usize,
    /// The maximum number of connections of one copy: a pull uses as many of them as its link is
    /// worth, unless its client requests fewer. A pull holds up to 32 MiB in memory, and 2 MiB for
    /// each connection.
    pub streams: usize,
    /// Seconds between two reports of progress.
    pub marker_seconds: f64,
    /// Seconds after which a copy that moves less than `min_bytes_per_second` is cancelled.
    pub stall_seconds: f64,
    /// The minimum rate in bytes per second.
    pub min_bytes_per_second: u64,
    /// Seconds that another server may take to respond, as when it computes a checksum first.
    pub answer_seconds: f64,
    /// Fails a copy if the other server reports no checksum. A client may override this
    /// (`RequireChecksumVerification`).
    pub require_checksum: bool,
}

impl Default for ThirdPartySettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            ports: vec!["443".to_owned(), "1024-65535".to_owned()],
            networks: Vec::new(),
            clear_text: false,
            follow: Vec::new(),
            authorities: None,
            transfers: 16,
            streams: 64,
            marker_seconds: 5.0,
            stall_seconds: 120.0,
            min_bytes_per_second: 1024,
            answer_seconds: 300.0,
            require_checksum: false,
        }
    }
}

impl ThirdPartySettings {
    /// Fails for invalid values.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, value, maximum) in
            [("transfers", self.transfers, 10_000), ("streams", self.streams, 64)]
        {
            if !(1..=maximum).contains(&value) {
                return Err(invalid(format!("{name} is {value}, expected 1 to {maximum}")));
            }
        }
        for (name, seconds) in [
            ("marker_seconds", self.marker_seconds),
            ("stall_seconds", self.stall_seconds),
            ("answer_seconds", self.answer_seconds),
        ] {
            if !(0.001..1e9).contains(&seconds) {
                return Err(invalid(format!("{name} is {seconds}, expected 0.001 to 1e9 seconds")));
            }
        }
        self.host_rules().and_then(|_| self.redirect_hosts()).map(drop)
    }

    /// The rules for hosts and addresses to connect to.
    pub(crate) fn host_rules(&self) -> Result<EgressRules> {
        Ok(EgressRules {
            hosts: patterns("hosts", &self.hosts)?,
            ports: self.ports.iter().map(|text| ports(text)).collect::<Result<_>>()?,
            networks: self
                .networks
                .iter()
                .map(|text| {
                    Cidr::parse(text).ok_or_else(|| {
                        invalid(format!("networks: {text:?} is not a network like 10.0.0.0/8"))
                    })
                })
                .collect::<Result<_>>()?,
            clear_text: self.clear_text,
        })
    }

    fn redirect_hosts(&self) -> Result<Vec<HostPattern>> {
        patterns("follow", &self.follow)
    }

    /// The configuration of connections to other servers.
    pub(crate) fn transport(&self, hosts: Arc<EgressRules>) -> Result<TransportConfig> {
        let mut trust = TrustConfig::default();
        if let Some(path) = &self.authorities {
            let target = if path.is_dir() { &mut trust.folder } else { &mut trust.bundle };
            *target = Some(path.clone());
        }
        // An unreadable file is an error at the start, not at the first copy.
        trust.load().map_err(|error| invalid(format!("authorities: {error}")))?;
        let mut credentials = CredentialConfig::default();
        credentials.trust = trust;
        credentials.follow = self.redirect_hosts()?;
        credentials.over_plain_http = self.clear_text;
        let mut config = TransportConfig::default();
        config.credentials = Credentials::new(credentials);
        config.gate = Some(hosts);
        // A connection for each stream and one for other requests: no copy waits for another one
        // from the same server.
        config.max_connections = self.transfers.saturating_mul(self.streams.saturating_add(1));
        config.first_byte_timeout = seconds(self.answer_seconds);
        config.no_progress_timeout = seconds(self.stall_seconds);
        Ok(config)
    }

    pub(crate) fn marker(&self) -> Duration {
        seconds(self.marker_seconds)
    }

    pub(crate) fn stall(&self) -> Duration {
        seconds(self.stall_seconds)
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn patterns(name: &str, texts: &[String]) -> Result<Vec<HostPattern>> {
    let parsed = texts.iter().map(|text| HostPattern::parse(text));
    parsed.collect::<Result<_, _>>().map_err(|error| invalid(format!("{name}: {error}")))
}

fn ports(text: &str) -> Result<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err(invalid(format!("ports: {text:?} is neither a port nor a range like 1024-65535"))),
    }
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::Invalid, format!("third_party.{what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_setting() {
        let checked = |text: &str| {
            let settings = toml::from_str::<ThirdPartySettings>(text);
            settings.map_err(|error| invalid(error.to_string()))?.check()
        };
        assert!(checked("").is_ok());
        for (text, named) in [
            ("host = []", "host"),
            ("hosts = ['*']", "hosts"),
            ("follow = ['https://a']", "follow"),
            ("ports = ['80-79']", "80-79"),
            ("ports = ['https']", "https"),
            ("networks = ['10.0.0.0/33']", "10.0.0.0/33"),
            ("networks = ['localhost']", "localhost"),
            ("transfers = 0", "transfers"),
            ("streams = 65", "streams"),
            ("stall_seconds = 0", "stall_seconds"),
            ("marker_seconds = nan", "marker_seconds"),
        ] {
            let error = checked(text).unwrap_err();
            assert!(error.to_string().contains(named), "{text}: {error}");
        }
        let nowhere =
            ThirdPartySettings { authorities: Some("/no/where".into()), ..Default::default() };
        let hosts = Arc::new(nowhere.host_rules().unwrap());
        let error = nowhere.transport(hosts).unwrap_err();
        assert!(error.to_string().contains("/no/where"), "{error}");
    }
}

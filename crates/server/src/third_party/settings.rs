//! The table `[third_party]` of the settings: whether files are copied from and to other servers, which, and how much at a
//! time.

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

/// How files are copied between this server and others (HTTP third-party copy). With this table, whoever may write a file may
/// have it fetched, and whoever may read one may have it sent: over TLS, from and to hosts with public addresses.
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
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ThirdPartySettings {
    /// Hosts to connect to: `host`, `host:port`, `*.domain`, `*.domain:port`; all of them if none is named.
    pub hosts: Vec<String>,
    /// Ports to connect to, single ones and ranges, where the pattern of the host names none: 443 and those from 1024 on.
    pub ports: Vec<String>,
    /// Networks to connect to although their addresses are not public, as `10.0.0.0/8`, or single addresses. Others of that
    /// kind, those of this machine among them, are refused whatever they are called.
    pub networks: Vec<String>,
    /// Whether `http` is allowed beside `https`. Everybody on the way sees the files and the tokens then.
    pub clear_text: bool,
    /// Hosts, as in `hosts`, that are shown what was meant for the one that redirected to them.
    pub follow: Vec<String>,
    /// A folder of certificate authorities, as grids have one, or a file of them in PEM, to be trusted beside the system's. If it
    /// is not named, `/etc/grid-security/certificates` is used where it exists.
    pub authorities: Option<PathBuf>,
    /// Copies at a time; further ones are refused, to be tried again.
    pub transfers: usize,
    /// Most connections for one copy: as many are used for a pull, unless its client asks for fewer. Up to three times 2 MiB are in
    /// memory for each, or 48 MiB for all of them if that is more.
    pub streams: usize,
    /// Seconds between two reports of progress.
    pub marker_seconds: f64,
    /// A copy that moves less than `min_bytes_per_second` for so many seconds is given up.
    pub stall_seconds: f64,
    /// Least bytes a second.
    pub min_bytes_per_second: u64,
    /// Seconds that another server may take for an answer, as when it computes a checksum first.
    pub answer_seconds: f64,
    /// Whether a copy fails if the other server tells no checksum. Clients may say otherwise (`RequireChecksumVerification`).
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
            streams: 8,
            marker_seconds: 5.0,
            stall_seconds: 120.0,
            min_bytes_per_second: 1024,
            answer_seconds: 300.0,
            require_checksum: false,
        }
    }
}

impl ThirdPartySettings {
    /// Fails for values that make no sense.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, value, most) in
            [("transfers", self.transfers, 10_000), ("streams", self.streams, 64)]
        {
            if !(1..=most).contains(&value) {
                return Err(invalid(format!("{name} is {value}, expected 1 to {most}")));
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
        self.host_rules().and_then(|_| self.following()).map(drop)
    }

    /// Whom connections may be made to.
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

    fn following(&self) -> Result<Vec<HostPattern>> {
        patterns("follow", &self.follow)
    }

    /// How to connect.
    pub(crate) fn transport(&self, hosts: Arc<EgressRules>) -> Result<TransportConfig> {
        let mut trust = TrustConfig::default();
        if let Some(path) = &self.authorities {
            let named = if path.is_dir() { &mut trust.folder } else { &mut trust.bundle };
            *named = Some(path.clone());
        }
        // What cannot be read is told at the start, not at the first copy.
        trust.load().map_err(|error| invalid(format!("authorities: {error}")))?;
        let mut credentials = CredentialConfig::default();
        credentials.trust = trust;
        credentials.follow = self.following()?;
        credentials.over_plain_http = self.clear_text;
        let mut config = TransportConfig::default();
        config.credentials = Credentials::new(credentials);
        config.gate = Some(hosts);
        // A connection for each stream, and one for questions: nobody waits for another copy from the same server.
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
    fn what_makes_no_sense_is_refused_by_name() {
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

//! Discovery of an issuer's keys: OpenID Connect Discovery 1.0 section 4, with RFC 8414 as
//! fallback.

use hither_auth::Jwks;
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::{HttpRequest, Location, Network, TransportConfig};
use http::Method;
use serde::Deserialize;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// The maximum size of a document.
const MAX_BYTES: usize = 256 << 10;
/// The time limit of a discovery; requests wait for it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The paths of the document below the issuer's URL.
const PLACES: [&str; 2] =
    ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"];

/// A discovery in progress.
pub(crate) type JwksFuture = Pin<Box<dyn Future<Output = Result<Jwks>> + Send>>;

/// Fetches the keys of issuers.
pub(crate) trait KeyDiscovery: Send + Sync + Debug {
    /// Fetches the keys of an issuer.
    fn keys(&self, issuer: &str) -> JwksFuture;
}

/// Fetches keys over the network.
#[derive(Debug)]
pub(crate) struct OidcDiscovery(Arc<Network>);

#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
}

impl OidcDiscovery {
    pub(crate) fn new(runtime: Handle) -> Self {
        let mut config = TransportConfig::default();
        config.max_connections = 2;
        (config.connect_timeout, config.first_byte_timeout) = (TIMEOUT / 2, TIMEOUT);
        Self(Network::new(config, runtime, None))
    }
}

impl KeyDiscovery for OidcDiscovery {
    fn keys(&self, issuer: &str) -> JwksFuture {
        let network = Arc::clone(&self.0);
        let issuer = issuer.to_owned();
        Box::pin(async move {
            let fetched = tokio::time::timeout(TIMEOUT, found(&network, &issuer)).await;
            fetched.map_err(|_| {
                Error::new(
                    ErrorKind::Timeout,
                    format!("{issuer} did not respond within {} s", TIMEOUT.as_secs()),
                )
            })?
        })
    }
}

async fn found(network: &Network, issuer: &str) -> Result<Jwks> {
    let mut last = None;
    for place in PLACES {
        match read(network, &format!("{}{place}", issuer.trim_end_matches('/'))).await {
            Ok(text) => {
                let keys = place_of_keys(issuer, &text)?;
                let keys = read(network, &keys).await?;
                return Jwks::parse(&keys).map_err(|error| protocol(format!("{issuer}: {error}")));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| protocol(format!("{issuer} has no discovery document"))))
}

/// The URL of the keys, if the document belongs to the issuer.
fn place_of_keys(issuer: &str, text: &[u8]) -> Result<String> {
    let document: Document = serde_json::from_slice(text).map_err(|_| {
        protocol(format!("the discovery document of {issuer} has no issuer or no jwks_uri"))
    })?;
    if document.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
        return Err(protocol(format!("the discovery document of {issuer} names another issuer")));
    }
    let is_safe = document.jwks_uri.starts_with("https://")
        || (issuer.starts_with("http://") && document.jwks_uri.starts_with("http://"));
    if !is_safe {
        return Err(protocol(format!("the jwks_uri of {issuer} is not an https URL")));
    }
    Ok(document.jwks_uri)
}

async fn read(network: &Network, url: &str) -> Result<Vec<u8>> {
    let mut call = HttpRequest::new(Method::GET, Location::parse(url)?);
    call.max_reply_bytes = MAX_BYTES;
    let reply = network.call(call).await?;
    // Over plain HTTP an attacker could replace the keys.
    if url.starts_with("https://") && !reply.location.is_tls() {
        return Err(protocol(format!("{url} redirects to an unencrypted URL")));
    }
    if reply.status.is_success() {
        Ok(reply.body.to_vec())
    } else {
        Err(protocol(format!("{url} responded with status {}", reply.status.as_u16())))
    }
}

fn protocol(what: String) -> Error {
    Error::new(ErrorKind::Protocol, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_from_the_configuration_of_the_issuer_over_tls() {
        let place = |issuer: &str, text: &str| place_of_keys(issuer, text.as_bytes());
        let fine = r#"{"issuer":"https://iam/","jwks_uri":"https://keys/jwk","more":[1]}"#;
        assert_eq!(place("https://iam", fine).unwrap(), "https://keys/jwk");
        let plain = r#"{"issuer":"http://[::1]:80","jwks_uri":"http://[::1]:80/jwk"}"#;
        assert!(place("http://[::1]:80", plain).is_ok());
        for text in [
            "",
            "{}",
            r#"{"issuer":"https://iam"}"#,
            r#"{"issuer":"https://evil","jwks_uri":"https://keys/"}"#,
            r#"{"issuer":"https://iam","jwks_uri":"http://keys/"}"#,
            r#"{"issuer":"https://iam","jwks_uri":"file:///etc/keys"}"#,
        ] {
            assert!(place("https://iam", text).is_err(), "{text}");
        }
    }
}

//! The role of a location in a Pelican federation, and the credentials that it allows.
//!
//! `pelican://HOST/PATH` names the federation that `HOST` describes, and a path in it. Internally
//! it is the URL `https://HOST/PATH` with the role [`PelicanRole::Named`]: only the request for the
//! description is sent there. From it a request is sent to the director
//! ([`PelicanRole::Director`]), and by its redirect to a cache or an origin
//! ([`PelicanRole::Server`]).
//!
//! **Tokens.** A user who names a federation trusts the servers that its director chooses. So a
//! token goes to a server that the director names, if the namespace needs one or the request
//! writes, provided that the director was asked over TLS; otherwise an attacker on the path could
//! name a server of their own. The director gets it only if the federation is named by its host.
//! Passwords go to no server of a federation ([`Location::is_in_federation`]).

use super::secrets::{redact_url, without_tokens};
use super::{Location, UserUrl};
use hither_core::error::{Error, ErrorKind, Result};
use hither_http::PelicanNamespace;
use http::Method;
use std::borrow::Cow;
use std::sync::Arc;

/// The host whose federation `osdf://` and `stash://` URLs mean.
const OSDF_HOST: &str = "osg-htc.org";

/// The role of a location in a federation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum PelicanRole {
    /// It is in none.
    #[default]
    None,
    /// A path in a federation that a user named.
    Named,
    /// The path at the director.
    Director,
    /// A server that the director named.
    Server {
        /// The namespace of the file, if the director named it.
        namespace: Option<Arc<PelicanNamespace>>,
        /// Tokens for the federation are sent there.
        gets_tokens: bool,
    },
}

/// The `https` form of a URL of a federation; `None` for other URLs.
///
/// # Errors
///
/// [`ErrorKind::Invalid`] for a `pelican` URL without host.
pub(super) fn https_form(text: &str) -> Result<Option<Cow<'_, str>>> {
    let Some((scheme, rest)) = text.split_once("://") else { return Ok(None) };
    match scheme.to_ascii_lowercase().as_str() {
        "pelican" if rest.starts_with('/') => {
            let host = redact_url(&format!("https://{}", rest.trim_start_matches('/')));
            let host = host.trim_start_matches("https://").split('/').next().unwrap_or_default();
            let what =
                format!("the URL has no host: expected pelican://HOST/PATH, is {host:?} the host?");
            Err(Error::new(ErrorKind::Invalid, what))
        }
        "pelican" => Ok(Some(format!("https://{rest}").into())),
        // The first part of the path may stand where the host of other URLs is.
        "osdf" | "stash" => {
            let path = rest.trim_start_matches('/');
            Ok(Some(format!("https://{OSDF_HOST}/{path}").into()))
        }
        _ => Ok(None),
    }
}

impl Location {
    /// Returns true for a path in a federation, which is resolved before each request.
    #[must_use]
    pub fn is_in_federation(&self) -> bool {
        self.role != PelicanRole::None
    }

    /// Returns true if no server was chosen yet: not even the director of the federation.
    pub(crate) fn is_named(&self) -> bool {
        self.role == PelicanRole::Named
    }

    /// Returns true if this is the director's URL of a file.
    pub(crate) fn is_at_director(&self) -> bool {
        self.role == PelicanRole::Director
    }

    /// The namespace of a file at a server that a director named.
    pub(crate) fn namespace(&self) -> Option<&PelicanNamespace> {
        match &self.role {
            PelicanRole::Server { namespace, .. } => namespace.as_deref(),
            _ => None,
        }
    }

    /// The scheme as the user knows it.
    pub(super) fn scheme(&self) -> &str {
        if self.is_named() { "pelican" } else { self.url.scheme() }
    }

    /// The root of the server that describes the federation.
    pub(crate) fn https_root(&self) -> String {
        format!("https://{}", self.authority())
    }

    /// The same URL without its query.
    pub(crate) fn without_query(mut self) -> Self {
        self.url.set_query(None);
        self
    }

    /// The same path at another server: `director` is the root of its URLs.
    ///
    /// # Errors
    ///
    /// As [`Location::join`].
    pub(crate) fn at_director(&self, director: &str) -> Result<Self> {
        let base = self.join(director)?;
        let mut url = base.url.clone();
        url.set_path(self.url.path());
        let is_safe = base.is_as_safe_as(self);
        let kept = |query: &str| if is_safe { query.to_owned() } else { without_tokens(query) };
        let query = self.url.query().map(kept);
        url.set_query(query.as_deref().filter(|query| !query.is_empty()));
        Ok(Self { url, role: PelicanRole::Director, ..base })
    }

    /// The server at `reference` that the director, which this is, names for a request with
    /// `method`.
    ///
    /// # Errors
    ///
    /// As [`Location::join`].
    pub(crate) fn at_server(
        &self,
        reference: &str,
        namespace: Option<PelicanNamespace>,
        method: &Method,
    ) -> Result<Self> {
        let server = self.join(reference)?;
        if namespace.is_none() && server.origin() == self.origin() {
            return Ok(Self { role: PelicanRole::Director, ..server });
        }
        let reads = matches!(method.as_str(), "GET" | "HEAD" | "PROPFIND" | "QUERY" | "OPTIONS");
        let needs_token = !reads || namespace.as_ref().is_some_and(|it| it.requires_token);
        let is_safe = self.is_tls() || self.current_origin().is_loopback();
        let gets_tokens = needs_token && is_safe && server.is_as_safe_as(self);
        Ok(server.with_role(namespace.map(Arc::new), gets_tokens))
    }

    /// Another server of the same file that the same director named.
    ///
    /// # Errors
    ///
    /// As [`Location::join`].
    pub(crate) fn beside(&self, reference: &str) -> Result<Self> {
        let other = self.join(reference)?;
        Ok(match &self.role {
            PelicanRole::Server { namespace, gets_tokens } => {
                let gets_tokens = *gets_tokens && other.is_as_safe_as(self);
                other.with_role(namespace.clone(), gets_tokens)
            }
            _ => other,
        })
    }

    /// Returns false for a server on another machine without TLS that a director over TLS names.
    fn is_as_safe_as(&self, by: &Self) -> bool {
        self.is_tls() || !by.is_tls() || self.current_origin().is_loopback()
    }

    fn with_role(self, namespace: Option<Arc<PelicanNamespace>>, gets_tokens: bool) -> Self {
        let mut server = self;
        server.role = PelicanRole::Server { namespace, gets_tokens };
        if gets_tokens {
            // The credentials of the federation are meant for it.
            let origin = server.current_origin();
            server.user_url = Arc::new(UserUrl { origin, ..UserUrl::clone(&server.user_url) });
        }
        server
    }

    /// For a refused request, a text that names the token that the namespace takes; empty
    /// elsewhere.
    pub(crate) fn token_advice(&self) -> String {
        let Some(namespace) = self.namespace().filter(|it| !it.issuers.is_empty()) else {
            return String::new();
        };
        let path = namespace.base_path.as_deref().unwrap_or(&namespace.path);
        let issuers = namespace.issuers.join(" or ");
        format!(
            "; the namespace {} takes tokens of {issuers}, with scopes below {path}",
            namespace.path
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(requires_token: bool) -> Option<PelicanNamespace> {
        Some(PelicanNamespace { requires_token, ..PelicanNamespace::default() })
    }

    #[test]
    fn urls_of_federations_are_shown_as_they_were_given() {
        for (url, shown, target) in [
            (
                "pelican://fed.example/a%20b?directread",
                "pelican://fed.example/a%20b",
                "/a%20b?directread",
            ),
            ("Pelican://fed.example:8443/x/", "pelican://fed.example:8443/x/", "/x/"),
            ("osdf:///ns/f", "pelican://osg-htc.org/ns/f", "/ns/f"),
            ("osdf://ns/f", "pelican://osg-htc.org/ns/f", "/ns/f"),
            ("stash:///ns/f", "pelican://osg-htc.org/ns/f", "/ns/f"),
        ] {
            let location = Location::parse(url).unwrap();
            assert_eq!((location.to_string().as_str(), &*location.target()), (shown, target));
            assert!(location.is_named() && location.cache_key().starts_with("pelican://"));
            assert!(location.below("y", false).is_named());
        }
        let error = Location::parse("pelican:///fed.example/x").unwrap_err().to_string();
        assert!(error.contains("\"fed.example\""), "{error}");
        // No server leads into a federation.
        assert!(Location::parse("https://h/x").unwrap().join("pelican://fed.example/x").is_err());
    }

    #[test]
    fn tokens_go_to_servers_that_a_director_names_over_tls() {
        let named = Location::parse("pelican://fed.example/ns/f").unwrap();
        for (director, server, needs, method, gets) in [
            ("https://d.example", "https://c.example/ns/f", true, Method::GET, true),
            ("https://d.example", "https://c.example/ns/f", false, Method::GET, false),
            ("https://d.example", "https://c.example/ns/f", false, Method::PUT, true),
            ("http://d.example", "https://c.example/ns/f", true, Method::GET, false),
            ("https://d.example", "http://c.example/ns/f", true, Method::GET, false),
        ] {
            let director = named.at_director(director).unwrap();
            assert_ne!(director.original_origin(), &director.current_origin());
            let server = director.at_server(server, namespace(needs), &method).unwrap();
            let is_sent = server.original_origin() == &server.current_origin();
            assert_eq!(is_sent, gets, "{method} {needs}");
            let other = server.beside("https://e.example/ns/f").unwrap();
            assert_eq!(other.original_origin() == &other.current_origin(), gets);
            // The director has not named the target of that server's redirect.
            let further = server.join("https://x.example/f").unwrap();
            assert_ne!(further.original_origin(), &further.current_origin());
        }
    }

    #[test]
    fn a_director_keeps_path_and_query_and_may_be_the_federation_itself() {
        let named = Location::parse("pelican://fed.example:1/ns/a%20b?directread").unwrap();
        let director = named.at_director("https://d.example:2/ignored?x").unwrap();
        assert_eq!(director.target(), "/ns/a%20b?directread");
        assert_eq!(director.origin(), "https://d.example:2");
        let itself = named.at_director(&named.https_root()).unwrap();
        assert_eq!(itself.original_origin(), &itself.current_origin());
        // A redirect to another form of the path does not name a server.
        assert!(director.at_server("/ns/a%20b/", None, &Method::GET).unwrap().is_at_director());
    }
}

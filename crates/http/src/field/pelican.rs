//! The fields by which a director of a Pelican federation describes the namespace of a file.
//!
//! A client requests a file from the director and is redirected (307) to a cache or an origin. The
//! response lists all servers in `Link` fields, as [Metalink](crate::metalink) does, and states to
//! which other files it applies:
//!
//! | field | content |
//! |---|---|
//! | `X-Pelican-Namespace` | `namespace=/ns, require-token=true, collections-url=https://…` |
//! | `X-Pelican-Authorization` | `issuer=https://…`, one for each issuer of tokens |
//! | `X-Pelican-Token-Generation` | how an issuer gives tokens, with `base-path=/ns` |
//!
//! So a client need not query the director again for another file of the namespace. The syntax is
//! that of Pelican's own description (`docs/pelican-http-headers.md`, version 7). The fields are
//! untrusted input: items with other syntax are ignored.

use crate::field::list_items;
use http::HeaderMap;

/// The path of the document that names the director of a federation.
pub const DISCOVERY_PATH: &str = "/.well-known/pelican-configuration";
/// The key of the director's URL in that document.
pub const DIRECTOR_KEY: &str = "director_endpoint";
/// The field about the namespace.
pub const NAMESPACE: &str = "x-pelican-namespace";
/// The field about the issuers of tokens.
pub const AUTHORIZATION: &str = "x-pelican-authorization";
/// The field about how an issuer generates tokens.
pub const TOKEN_GENERATION: &str = "x-pelican-token-generation";

/// Maximum number of issuers that are read from a response.
const MAX_ISSUERS: usize = 20;

/// The namespace of a file, as a director describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PelicanNamespace {
    /// Its path, absolute and without a slash at the end; empty for the root.
    pub path: String,
    /// True if reading needs a token.
    pub requires_token: bool,
    /// The server that lists its directories.
    pub collections: Option<String>,
    /// The issuers of tokens for it.
    pub issuers: Vec<String>,
    /// The path that the scopes of tokens are relative to.
    pub base_path: Option<String>,
}

impl PelicanNamespace {
    /// Reads the fields of a response; `None` unless it names a namespace.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use hither_http::pelican::{NAMESPACE, PelicanNamespace};
    /// let mut headers = HeaderMap::new();
    /// headers.insert(NAMESPACE, "namespace=/ns/, require-token=true".parse()?);
    /// let namespace = PelicanNamespace::of(&headers).unwrap();
    /// assert!(namespace.requires_token && namespace.holds("/ns/a/b") && !namespace.holds("/nsx"));
    /// # Ok::<(), http::header::InvalidHeaderValue>(())
    /// ```
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut found = Self::default();
        let mut path = None;
        for (name, value) in pairs(headers, NAMESPACE) {
            match name {
                "namespace" if value.starts_with('/') => path = Some(value.trim_end_matches('/')),
                "require-token" => found.requires_token = value == "true",
                "collections-url" => found.collections = Some(value.to_owned()),
                _ => {}
            }
        }
        path?.clone_into(&mut found.path);
        let issuers = pairs(headers, AUTHORIZATION).filter(|(name, _)| *name == "issuer");
        found.issuers = issuers.take(MAX_ISSUERS).map(|(_, value)| value.to_owned()).collect();
        let base = pairs(headers, TOKEN_GENERATION).find(|(name, _)| *name == "base-path");
        found.base_path = base.map(|(_, value)| value.trim_end_matches('/').to_owned());
        Some(found)
    }

    /// Returns true if `path` is the namespace or below it.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        path.strip_prefix(&*self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The value of [`NAMESPACE`].
    #[must_use]
    pub fn to_field(&self) -> String {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        let mut field = format!("namespace={path}, require-token={}", self.requires_token);
        if let Some(url) = &self.collections {
            field.push_str(&format!(", collections-url={url}"));
        }
        field
    }
}

/// The `name=value` items of a field.
fn pairs<'a>(headers: &'a HeaderMap, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let values = headers.get_all(field).into_iter();
    let items = values.flat_map(|value| list_items(value.as_bytes()));
    let texts = items.filter_map(|item| std::str::from_utf8(item).ok()?.split_once('='));
    texts.map(|(name, value)| (name.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn all_fields_of_a_director_are_read() {
        let found = PelicanNamespace::of(&headers(&[
            (
                NAMESPACE,
                "namespace=/ns/x, require-token=true, collections-url=https://o.example:8443",
            ),
            (AUTHORIZATION, "issuer=https://a.example, issuer=https://b.example/iam"),
            (AUTHORIZATION, "issuer=https://c.example"),
            (
                TOKEN_GENERATION,
                "issuer=https://a.example, max-scope-depth=3, strategy=OAuth2, base-path=/ns",
            ),
        ]));
        let expected = PelicanNamespace {
            path: "/ns/x".to_owned(),
            requires_token: true,
            collections: Some("https://o.example:8443".to_owned()),
            issuers: ["https://a.example", "https://b.example/iam", "https://c.example"]
                .map(str::to_owned)
                .to_vec(),
            base_path: Some("/ns".to_owned()),
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn a_namespace_holds_what_is_below_it() {
        for (namespace, path, is_held) in [
            ("/ns", "/ns", true),
            ("/ns", "/ns/a", true),
            ("/ns/", "/ns/a", true),
            ("/ns", "/nsa", false),
            ("/ns/a", "/ns", false),
            ("/", "/ns", true),
        ] {
            let field = format!("namespace={namespace}");
            let found = PelicanNamespace::of(&headers(&[(NAMESPACE, &field)])).unwrap();
            assert_eq!(found.holds(path), is_held, "{namespace} {path}");
        }
    }

    #[test]
    fn what_is_no_namespace_is_ignored() {
        for field in ["namespace=relative, require-token=true", "require-token=true", "/ns", ""] {
            assert_eq!(PelicanNamespace::of(&headers(&[(NAMESPACE, field)])), None, "{field:?}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for path in ["", "/ns/a"] {
            let namespace = PelicanNamespace {
                path: path.to_owned(),
                requires_token: true,
                collections: Some("https://h:1".to_owned()),
                ..Default::default()
            };
            let read = PelicanNamespace::of(&headers(&[(NAMESPACE, &namespace.to_field())]));
            assert_eq!(read, Some(namespace));
        }
    }
}

//! An `href` of a listing as a path below the requested one.

use super::PropfindError;
use crate::text::excerpt;
use http::Uri;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The requested URL.
#[derive(Debug)]
pub(super) struct Base {
    host: Option<String>,
    components: Vec<String>,
    /// The references are percent-encoded, as they should be.
    pub(super) is_encoded: bool,
}

impl Base {
    pub(super) fn of(requested: &Uri, is_encoded: bool) -> Result<Self, PropfindError> {
        let components = components(requested.path(), true).map_err(|what| {
            PropfindError::Href { href: excerpt(requested.path().as_bytes()), what }
        })?;
        let components = components.into_iter().map(|(name, _)| name).collect();
        Ok(Self { host: requested.host().map(str::to_ascii_lowercase), components, is_encoded })
    }

    /// The path of `href` below the base, decoded, and true if it is UTF-8.
    pub(super) fn below(&self, href: &str) -> Result<(String, bool), PropfindError> {
        self.locate(href)
            .map_err(|what| PropfindError::Href { href: excerpt(href.as_bytes()), what })
    }

    fn locate(&self, href: &str) -> Result<(String, bool), &'static str> {
        let path = match href.split_once("://") {
            Some((scheme, rest)) if !scheme.contains('/') => {
                let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
                if self.host.as_deref() != Some(host(authority).to_ascii_lowercase().as_str()) {
                    return Err("on another host than the requested one");
                }
                path
            }
            _ => href,
        };
        // A `?` or `#` is part of a name: a listing has no queries, and XrdHttp encodes nothing.
        let components = components(path, self.is_encoded)?;
        // A reference without a leading slash is relative to the requested path (RFC 4918 section
        // 8.3.1 forbids it).
        let relative = !path.is_empty() && !path.starts_with('/');
        let mut rest = components.into_iter();
        if !relative
            && !self.components.iter().all(|own| rest.next().is_some_and(|it| it.0 == *own))
        {
            return Err("which is not below the requested path");
        }
        let (below, is_utf8): (Vec<_>, Vec<_>) = rest.unzip();
        Ok((below.join("/"), is_utf8.into_iter().all(|is_utf8| is_utf8)))
    }
}

/// The host in `user@host:port`, including brackets.
fn host(authority: &str) -> &str {
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let end = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    authority.get(..end).unwrap_or_default()
}

/// The names in a path, without empty ones and `.`, each with true if it is UTF-8.
fn components(path: &str, is_encoded: bool) -> Result<Vec<(String, bool)>, &'static str> {
    let mut found = Vec::new();
    for component in path.split('/') {
        let bytes: Cow<'_, [u8]> = if is_encoded {
            percent_decode_str(component).into()
        } else {
            component.as_bytes().into()
        };
        let is_utf8 = std::str::from_utf8(&bytes).is_ok();
        match String::from_utf8_lossy(&bytes).as_ref() {
            "" | "." => {}
            ".." => return Err("with a component \"..\""),
            name if name.contains(['/', '\0']) => return Err("with a slash or NUL in a name"),
            name => found.push((name.to_owned(), is_utf8)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(requested: &str, href: &str) -> Result<String, &'static str> {
        let base = Base::of(&requested.parse().unwrap(), true).unwrap();
        let (path, is_utf8) = base.locate(href)?;
        if is_utf8 { Ok(path) } else { Err("not in UTF-8") }
    }

    #[test]
    fn names_are_found_for_every_form_of_the_reference() {
        let requested = "http://data.example:1094/store/run%201/";
        for (href, path) in [
            ("/store/run%201/", ""),
            ("/store/run%201", ""),
            ("/store/run%201/a.root", "a.root"),
            ("//store//run 1//deep/%c3%a4%2b+.root", "deep/ä++.root"),
            ("http://data.example:1094/store/run%201/a/b/", "a/b"),
            ("https://user@DATA.example/store/run%201/a?x#y", "a?x#y"),
            ("a.root", "a.root"),
            ("./a.root", "a.root"),
            ("/store/run%201/%2525", "%25"),
            ("/store/run%201/a:b", "a:b"),
        ] {
            assert_eq!(below(requested, href), Ok(path.to_owned()), "{href}");
        }
        assert_eq!(below("http://[::1]:80/", "http://[::1]:8080/x"), Ok("x".to_owned()));
        assert_eq!(below("/", "/a/b"), Ok("a/b".to_owned()));
    }

    #[test]
    fn names_that_are_not_encoded_are_taken_as_they_are() {
        let base = Base::of(&"/run%201/".parse().unwrap(), false).unwrap();
        for name in ["a%41b", "a%20b", "50%", "a b", "%2F", "a?b#c", "ä"] {
            let found = base.locate(&format!("/run 1/{name}"));
            assert_eq!(found, Ok((name.to_owned(), true)), "{name}");
        }
        assert!(base.locate("/run%201/a").is_err() && base.locate("/run 1/../a").is_err());
    }

    #[test]
    fn names_elsewhere_are_refused() {
        for href in [
            "/store/run%202/a",
            "/store",
            "/",
            "",
            "/store/run%201/../x",
            "/store/run%201/%2e%2e/x",
            "/store/run%201/a%2fb",
            "/store/run%201/a%00",
            "/store/run%201/%ff",
            "../x",
            "http://evil.example/store/run%201/a",
            "http://data.example@evil.example/store/run%201/a",
            "http://evil.example",
        ] {
            assert!(below("http://data.example/store/run%201/", href).is_err(), "{href}");
        }
        assert!(below("/", "http://data.example/a").is_err());
    }
}

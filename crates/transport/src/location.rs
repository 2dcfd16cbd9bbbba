//! The location of a file: a parsed URL that is safe to print.

mod pelican_role;
pub(crate) mod secrets;

use hither_auth::{Basic, Credentials, Origin, Secret};
use hither_core::error::{Error, ErrorKind, Result};
use http::HeaderMap;
use pelican_role::PelicanRole;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use secrets::{redact_reference, redact_url, without_tokens};
use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use url::Url;

/// The characters of a name that are encoded in the path of a URL: those that separate its parts,
/// those that the parser drops or takes for others (control characters, `\`), those that RFC 3986
/// does not allow, and the semicolon, after which servers in Java see parameters.
const ENCODED_IN_NAMES: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b';')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The characters of an XRootD URL that the parser would drop, or take for parts of another URL.
const ENCODED_IN_XROOTD: &AsciiSet = &CONTROLS.add(b' ').add(b'#').add(b'%').add(b'\\');

/// A URL, split into what a connection needs and what a request needs.
///
/// `Display` leaves out user name, password and query, which may be secrets.
///
/// URLs of XRootD (`root://`, `roots://`, and their synonyms `xroot://`, `xroots://`) are literal,
/// as for its own client: `%` and `#` are ordinary characters, and a path may begin with one or two
/// slashes, because paths there are always absolute.
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    url: Url,
    host: String,
    port: u16,
    user_url: Arc<UserUrl>,
    role: PelicanRole,
}

/// The protocol of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP, with or without TLS.
    Http,
    /// XRootD, with or without TLS.
    Xrootd,
}

impl Protocol {
    /// The protocol of a scheme, the canonical scheme, and its port.
    fn of(scheme: &str) -> Option<(Self, &'static str, u16)> {
        match scheme {
            "http" => Some((Self::Http, "http", 80)),
            "https" => Some((Self::Http, "https", 443)),
            "root" | "xroot" => Some((Self::Xrootd, "root", 1094)),
            "roots" | "xroots" => Some((Self::Xrootd, "roots", 1094)),
            _ => None,
        }
    }
}

/// The URL that the user gave, from which redirects and documents led here. Credentials are meant
/// for its server.
#[derive(Clone, PartialEq, Eq)]
struct UserUrl {
    origin: Origin,
    /// The user and password in the URL. Over XRootD a user name is not a credential.
    basic: Option<Basic>,
    /// The login name for XRootD in the URL.
    login: Option<String>,
    /// Fields of every HTTP request to servers that may receive credentials.
    fields: HeaderMap,
    /// Requests are signed by other means, and carry no credential.
    signed: bool,
}

impl UserUrl {
    fn new(origin: Origin) -> Self {
        Self { origin, basic: None, login: None, fields: HeaderMap::new(), signed: false }
    }
}

impl Location {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for an invalid URL or one without host, [`ErrorKind::Unsupported`]
    /// for a scheme of no [`Protocol`].
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |why: &dyn fmt::Display| {
            let text = redact_reference(text);
            Error::new(ErrorKind::Invalid, format!("{text:?} is not a URL: {why}"))
        };
        let federated = pelican_role::https_form(text)?;
        let role = federated.as_ref().map_or(PelicanRole::None, |_| PelicanRole::Named);
        let text = federated.unwrap_or_else(|| literal(text));
        let path = text.split(['?', '#']).next().unwrap_or_default();
        // The parser would drop them, or take a `\` for a slash.
        if text.contains(|c: char| c.is_ascii_control())
            || text.trim_matches(' ') != text
            || path.contains('\\')
        {
            let why = "it contains a control character or a \"\\\", or begins or ends with a space: \
                       encode them (%0A for a line break, %5C, %20)";
            return Err(invalid(&why));
        }
        let url = Url::parse(&text).map_err(|error| invalid(&error))?;
        Ok(Self { role, ..Self::from_url(url, None)? })
    }

    /// The URL that a server means by `reference`, in a redirect or a document (RFC 3986 section
    /// 5). Credentials for the user's server are not meant for another one to which this leads. A
    /// user and password in the reference come from the server and are ignored.
    ///
    /// # Errors
    ///
    /// As [`Location::parse`].
    pub fn join(&self, reference: &str) -> Result<Self> {
        let url = self.url.join(&http_form(reference)).map_err(|error| {
            let reference = redact_reference(reference);
            Error::new(ErrorKind::Protocol, format!("redirect to {reference:?}: {error}"))
        })?;
        Self::from_url(url, Some(Arc::clone(&self.user_url)))
    }

    /// The same file on the server that an XRootD server redirects to, with `opaque` appended to
    /// the query, without its token if that is not meant for the server.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] for an invalid host.
    pub(crate) fn redirected_to_host(
        &self,
        host: &str,
        port: u16,
        opaque: Option<&str>,
        credentials: &Credentials,
    ) -> Result<Self> {
        let mut url = self.url.clone();
        let port = Some(port).filter(|port| *port != 0);
        if url.set_host(Some(host)).is_err() || url.set_port(port).is_err() {
            let what = format!("{self}: redirect to {host:?}, which is not a host name");
            return Err(Error::new(ErrorKind::Protocol, what));
        }
        url.set_query(None);
        let mut other = Self::from_url(url, Some(Arc::clone(&self.user_url)))?;
        let may = other.may_receive_credentials(credentials);
        let own = self.opaque().map(|own| if may { own } else { without_tokens(&own) });
        let words: Vec<_> = [own, opaque.map(str::to_owned)].into_iter().flatten().collect();
        let words = words.join("&");
        let words = words.trim_matches('&');
        if !words.is_empty() {
            other.url.set_query(Some(&escaped(words)));
        }
        Ok(other)
    }

    /// The same URL over TLS. Credentials for the original URL are meant for this one, too.
    pub(crate) fn over_tls(&self) -> Self {
        let mut other = self.clone();
        // The schemes are of one protocol, so the change is allowed.
        let _always = other.url.set_scheme("roots");
        if self.current_origin() == self.user_url.origin {
            other.user_url = Arc::new(UserUrl {
                origin: other.current_origin(),
                ..UserUrl::clone(&self.user_url)
            });
        }
        other
    }

    /// The whole URL that an XRootD server redirects to.
    ///
    /// # Errors
    ///
    /// As [`Location::join`].
    pub(crate) fn redirected_to_url(&self, text: &str) -> Result<Self> {
        let url = Url::parse(&literal(text)).map_err(|error| {
            let text = redact_reference(text);
            Error::new(ErrorKind::Protocol, format!("{self}: redirect to {text:?}: {error}"))
        })?;
        Self::from_url(url, Some(Arc::clone(&self.user_url)))
    }

    fn from_url(mut url: Url, user_url: Option<Arc<UserUrl>>) -> Result<Self> {
        let Some((protocol, scheme, usual_port)) = Protocol::of(url.scheme()) else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "scheme {:?} is not supported by this version: expected http://, https://, dav://, davs://, root://, roots://, s3://, pelican://, osdf:// or a local path",
                    url.scheme()
                ),
            ));
        };
        if url.fragment().is_some() && user_url.is_none() {
            let text = redact_url(url.as_str());
            let what = format!(
                "{text}: a URL of a file has no fragment: write %23 for the character # in a name"
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        url.set_fragment(None);
        let host = url.host_str().filter(|host| !host.is_empty());
        let Some(host) = host.map(str::to_owned) else {
            let text = redact_url(url.as_str());
            return Err(Error::new(ErrorKind::Invalid, format!("{text} names no host")));
        };
        let port = url.port().unwrap_or(usual_port);
        let user_url = match user_url {
            Some(user_url) => user_url,
            None => {
                let origin = Origin::new(scheme, &host, port);
                let (basic, login) = match protocol {
                    Protocol::Http => (basic(&url)?, None),
                    Protocol::Xrootd => (None, login(&url)),
                };
                Arc::new(UserUrl { basic, login, ..UserUrl::new(origin) })
            }
        };
        // A URL with a host may have these, and the schemes are of one protocol.
        let _always = (url.set_username(""), url.set_password(None), url.set_scheme(scheme));
        if protocol == Protocol::Xrootd {
            make_absolute(&mut url);
            // The parser does not know the default port.
            let _always = url.set_port(Some(port).filter(|port| *port != usual_port));
        }
        Ok(Self { url, host, port, user_url, role: PelicanRole::None })
    }

    /// The protocol of the URL.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        Protocol::of(self.url.scheme()).map_or(Protocol::Http, |(protocol, ..)| protocol)
    }

    /// The origin of this URL. Behind a redirect it differs from the original one.
    #[must_use]
    pub(crate) fn current_origin(&self) -> Origin {
        Origin::new(self.url.scheme(), &self.host, self.port)
    }

    /// The path, percent-encoded.
    #[must_use]
    pub fn path(&self) -> &str {
        self.url.path()
    }

    /// The absolute path in XRootD's form, without any encoding.
    #[must_use]
    pub fn plain_path(&self) -> String {
        format!("/{}", unescaped(self.url.path()).trim_start_matches('/'))
    }

    /// The query in XRootD's form (its opaque information), if there is one.
    #[must_use]
    pub(crate) fn opaque(&self) -> Option<String> {
        self.url.query().filter(|query| !query.is_empty()).map(unescaped)
    }

    /// The login name for XRootD, if the URL had one.
    #[must_use]
    pub(crate) fn login(&self) -> Option<&str> {
        self.user_url.login.as_deref()
    }

    /// The URL of `path` below here. Its components are encoded; with `directory` it ends with a
    /// slash.
    #[must_use]
    pub fn below(&self, path: &str, directory: bool) -> Self {
        let mut url = self.url.clone();
        let mut whole = url.path().trim_end_matches('/').to_owned();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            whole.push('/');
            whole.extend(utf8_percent_encode(name, ENCODED_IN_NAMES));
        }
        if directory || whole.is_empty() {
            whole.push('/');
        }
        // Nothing is left in it that the parser would drop or take for a separator.
        url.set_path(&whole);
        if self.protocol() == Protocol::Xrootd {
            make_absolute(&mut url);
        }
        Self { url, ..self.clone() }
    }

    /// The root of the server, with the same credentials and query.
    #[must_use]
    pub fn root(&self) -> Self {
        let mut url = self.url.clone();
        url.set_path("/");
        if self.protocol() == Protocol::Xrootd {
            make_absolute(&mut url);
        }
        Self { url, ..self.clone() }
    }

    /// Host as in the URL; an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns whether the URL requires TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self.url.scheme(), "https" | "roots")
    }

    /// The port: that of the URL, or 80 for `http`, 443 for `https`, 1094 for XRootD.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The endpoint: the key of connections and of stored knowledge about the server.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.host_and_port())
    }

    /// Host and port, both of them always.
    #[must_use]
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The value of the `Host` header (RFC 9110 section 7.2).
    #[must_use]
    pub fn authority(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// The same URL with this query; `None` if it has a query already.
    #[must_use]
    pub fn with_query(&self, query: &str) -> Option<Self> {
        if self.url.query().is_some() {
            return None;
        }
        let mut other = self.clone();
        other.url.set_query(Some(query));
        Some(other)
    }

    /// Returns true if a name in the path has a question mark.
    #[must_use]
    pub(crate) fn has_question_mark(&self) -> bool {
        self.url.path().contains("%3F") || self.url.path().contains("%3f")
    }

    /// Path and query, as in a request line.
    #[must_use]
    pub fn target(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }

    /// The URL as it goes into a request to a proxy (RFC 9112 section 3.2.2): without user,
    /// password and fragment.
    #[must_use]
    pub(crate) fn absolute(&self) -> String {
        format!("{}://{}{}", self.url.scheme(), self.authority(), self.target())
    }

    /// The absolute form of a relative URL in a response from here; `None` if it is not valid.
    pub(crate) fn absolute_of(&self, reference: &str) -> Option<String> {
        self.join(reference).ok().map(|it| it.absolute())
    }

    /// The key of the file in caches: the URL without user and password, and with a digest of the
    /// query, which may contain a token. (The digest may change with the standard library; the file
    /// then counts as another one.)
    #[must_use]
    pub fn cache_key(&self) -> String {
        let mut key = format!("{}{}", self.origin(), self.url.path());
        if let Some(query) = self.url.query() {
            let mut digest = DefaultHasher::new();
            query.hash(&mut digest);
            key.push_str(&format!("?{:016x}", digest.finish()));
        }
        key
    }
}

/// A URL of XRootD, with the characters escaped that have a meaning in other URLs.
fn literal(text: &str) -> Cow<'_, str> {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref().and_then(Protocol::of) {
        Some((Protocol::Xrootd, ..)) => escaped(text).into(),
        _ => http_form(text),
    }
}

/// The same URL with `http` for the scheme `dav` and `https` for `davs`, as davix and gfal2 have
/// them. Other text is not changed.
#[must_use]
pub fn http_form(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else { return text.into() };
    match scheme.to_ascii_lowercase().as_str() {
        "dav" => format!("http://{rest}").into(),
        "davs" => format!("https://{rest}").into(),
        _ => text.into(),
    }
}

/// Text of XRootD as a part of a URL.
fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ENCODED_IN_XROOTD).to_string()
}

/// Gives the path of an XRootD URL its two leading slashes.
fn make_absolute(url: &mut Url) {
    let path = format!("//{}", url.path().trim_start_matches('/'));
    url.set_path(&path);
}

/// Reverses [`escaped`].
fn unescaped(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The user name in an XRootD URL.
fn login(url: &Url) -> Option<String> {
    Some(unescaped(url.username())).filter(|name| !name.is_empty())
}

/// The user and password of a URL.
fn basic(url: &Url) -> Result<Option<Basic>> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let password = Secret::new(decoded(url.password().unwrap_or_default()));
    let basic = Basic::new(decoded(url.username()), password);
    basic.map(Some).map_err(|error| {
        Error::new(ErrorKind::Invalid, "the user and password in the URL are not valid")
            .with_source(error)
    })
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match self.protocol() {
            Protocol::Http => Cow::Borrowed(self.url.path()),
            Protocol::Xrootd => Cow::Owned(unescaped(self.url.path())),
        };
        write!(f, "{}://{}{path}", self.scheme(), self.authority())
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let location = Location::parse("http://me:secret@host/a%20b?token=hush").unwrap();
        assert_eq!(location.to_string(), "http://host/a%20b");
        assert_eq!(location.target(), "/a%20b?token=hush");
        assert!(!format!("{location:?}").contains("hush"));
        assert!(!location.cache_key().contains("secret") && !location.cache_key().contains("hush"));
        let other = Location::parse("http://host/a%20b?token=other").unwrap();
        assert_ne!(location.cache_key(), other.cache_key());
    }

    #[test]
    fn errors_show_no_secrets() {
        for text in [
            "http://me:hush@host:99999/x",
            "http://me:hu/sh@[::1/x",
            "http://me:hush?x@host/",
            "http://me:hush#x@host/",
            "http://me:hu?hush@host/",
            "pelican:///me:hush@host/x?hush",
            "hush@host?hush",
            "http://host:x?hush",
        ] {
            let error = Location::parse(text).unwrap_err().to_string();
            assert!(!error.contains("hush") && !error.contains("hu/sh"), "{error}");
            let here = Location::parse("http://a/x").unwrap();
            if let Err(error) = here.join(text) {
                assert!(!error.to_string().contains("hush"), "{error}");
            }
        }
    }

    #[test]
    fn the_original_origin_is_kept_through_redirects() {
        let first = Location::parse("https://me:p%40ss@a/x").unwrap();
        let sent = |location: &Location| {
            let credentials = location.credentials(&Credentials::default());
            let now = std::time::SystemTime::UNIX_EPOCH;
            match credentials.authorization(
                location.original_origin(),
                &location.current_origin(),
                now,
            ) {
                hither_auth::Authorization::Ready(value, _) => Some(value.expose().to_owned()),
                _ => None,
            }
        };
        assert_eq!(sent(&first).as_deref(), Some("Basic bWU6cEBzcw=="));
        assert_eq!(sent(&first.join("/y").unwrap()), sent(&first));
        assert_eq!(sent(&first.join("https://b/y").unwrap()), None);
        assert_eq!(sent(&first.join("http://a/y").unwrap()), None);
        let back = first.join("https://b/y").unwrap().join("https://a/z").unwrap();
        assert_eq!(sent(&back), sent(&first));
        // A server cannot set the user.
        assert_eq!(sent(&first.join("https://you:q@b/y").unwrap()), None);
        assert_eq!(sent(&first.join("https://you:q@a/y").unwrap()), sent(&first));
        assert!(Location::parse("http://a%3Ab:c@host/").is_err());
    }

    #[test]
    fn extra_fields_follow_the_rules_of_credentials() {
        let fields = HeaderMap::from_iter([(http::header::AUTHORIZATION, "hush".parse().unwrap())]);
        let first = Location::parse("https://a/x").unwrap().with_fields(fields);
        assert!(!format!("{first:?}").contains("hush"));
        let mut config = hither_auth::CredentialConfig::default();
        config.follow = vec![hither_auth::HostPattern::parse("c").unwrap()];
        let credentials = Credentials::new(config);
        for (place, goes) in
            [("/y", true), ("https://b/x", false), ("http://a/x", false), ("https://c/x", true)]
        {
            let place = first.join(place).unwrap();
            assert_eq!(place.fields(&credentials).is_some(), goes, "{place}");
        }
        assert!(Location::parse("https://a/x").unwrap().fields(&credentials).is_none());
    }

    #[test]
    fn hosts_and_ports() {
        let v6 = Location::parse("http://[::1]:8080/x").unwrap();
        assert_eq!((v6.host(), v6.port(), v6.authority().as_str()), ("::1", 8080, "[::1]:8080"));
        assert_eq!(Location::parse("http://host/x").unwrap().port(), 80);
        let tls = Location::parse("https://host/x").unwrap();
        assert_eq!((tls.port(), tls.is_tls(), tls.authority().as_str()), (443, true, "host"));
        assert_eq!(
            (tls.origin(), tls.to_string()),
            ("https://host:443".into(), "https://host/x".into())
        );
        assert_eq!(Location::parse("https://host:80/x").unwrap().authority(), "host:80");
    }

    #[test]
    fn dav_is_http_and_davs_is_https() {
        for (url, same) in [
            ("dav://me:pw@h/a%20b/../c?q", "http://me:pw@h/a%20b/../c?q"),
            ("DAVS://h:8443//x", "https://h:8443//x"),
            ("davs://h/x", "https://h/x"),
        ] {
            let one = Location::parse(url).unwrap();
            let other = Location::parse(same).unwrap();
            assert!(one == other, "{url}");
            assert_eq!(one.port(), other.port());
            let base = Location::parse("http://b/y").unwrap();
            assert_eq!(base.join(url).unwrap().cache_key(), other.cache_key());
        }
    }

    #[test]
    fn urls_of_xrootd_are_literal() {
        let place = Location::parse("xroot://me@Host//store/a%20b#1?authz=Bearer%20x").unwrap();
        assert_eq!((place.protocol(), place.is_tls()), (Protocol::Xrootd, false));
        assert_eq!(place.plain_path(), "/store/a%20b#1");
        assert_eq!(place.opaque().as_deref(), Some("authz=Bearer%20x"));
        assert_eq!((place.login(), place.port()), (Some("me"), 1094));
        assert_eq!(place.to_string(), "root://Host//store/a%20b#1");
        let same = Location::parse("root://Host:1094/store/a%20b#1?authz=Bearer%20x").unwrap();
        assert_eq!((same.cache_key(), same.to_string()), (place.cache_key(), place.to_string()));
        let tls = Location::parse("roots://[::1]:1095//x y").unwrap();
        assert_eq!((tls.host(), tls.port(), tls.is_tls()), ("::1", 1095, true));
        assert_eq!(
            (tls.plain_path().as_str(), tls.to_string().as_str()),
            ("/x y", "roots://[::1]:1095//x y")
        );
        let none = Credentials::default();
        let moved = place.redirected_to_host("[::2]", 0, Some("tpc.key=%1"), &none).unwrap();
        assert_eq!(moved.to_string(), "root://[::2]//store/a%20b#1");
        assert_eq!(moved.opaque().as_deref(), Some("tpc.key=%1"));
        let same = place.redirected_to_host("Host", 1094, Some("tpc.key=%1"), &none).unwrap();
        assert_eq!(same.opaque().as_deref(), Some("authz=Bearer%20x&tpc.key=%1"));
        assert_eq!((moved.login(), moved.original_origin()), (Some("me"), place.original_origin()));
        assert!(place.redirected_to_host("a b", 1, None, &none).is_err());
        let root = Location::parse("root://h").unwrap();
        assert_eq!(root.plain_path(), "/");
        assert_eq!(root.below("a b/100%", false).plain_path(), "/a b/100%");
        assert_eq!(root.below("a", true).to_string(), "root://h//a/");
    }

    #[test]
    fn odd_urls_are_refused_with_a_reason() {
        for (text, kind) in [
            ("", ErrorKind::Invalid),
            ("http://", ErrorKind::Invalid),
            ("http://host:99999/x", ErrorKind::Invalid),
            ("gopher://host/x", ErrorKind::Unsupported),
            ("https://", ErrorKind::Invalid),
        ] {
            assert_eq!(Location::parse(text).unwrap_err().kind(), kind, "{text:?}");
        }
    }

    #[test]
    fn names_are_encoded_one_by_one() {
        let root = Location::parse("http://h/base/?q=1").unwrap();
        let below = |path, directory| root.below(path, directory).target();
        assert_eq!(below("", true), "/base/?q=1");
        assert_eq!(below("a b/100%", false), "/base/a%20b/100%25?q=1");
        assert_eq!(below("a&b=c;d", false), "/base/a&b=c%3Bd?q=1");
        assert_eq!(below("%2e%2e/q?r#s", true), "/base/%252e%252e/q%3Fr%23s/?q=1");
        assert_eq!(Location::parse("http://h").unwrap().below("x", false).target(), "/x");
    }

    #[test]
    fn every_character_of_a_name_arrives() {
        let ascii = (1..128_u8).map(char::from).filter(|c| *c != '/');
        for c in ascii.chain(['\u{80}', '\u{85}', '\u{a0}', '\u{301}', '\u{2028}', '\u{ffff}']) {
            for name in [format!("{c}"), format!("a{c}b"), format!("{c}a"), format!("a{c}")] {
                if name == "." {
                    continue;
                }
                let http = Location::parse("http://h/base").unwrap().below(&name, false);
                let last = http.path().strip_prefix("/base/").unwrap();
                assert_eq!(percent_decode_str(last).decode_utf8().unwrap(), name, "{last}");
                assert!(!last.contains(['/', '?', '#', '\\']) && last.is_ascii(), "{last}");
                if c != '?' {
                    let xrootd = Location::parse("root://h//base").unwrap().below(&name, false);
                    assert_eq!(xrootd.plain_path(), format!("/base/{name}"), "{name:?}");
                    let parsed = Location::parse(&format!("root://h//base/{name}")).unwrap();
                    assert_eq!(parsed.plain_path(), format!("/base/{name}"), "{name:?}");
                }
            }
        }
    }

    #[test]
    fn urls_that_parsers_would_change_are_refused() {
        for url in ["http://h/a\tb", "http://h/a\n", "http://h/a\\b", " http://h/a", "http://h/a "]
        {
            assert!(Location::parse(url).is_err(), "{url:?}");
        }
    }

    #[test]
    fn redirects_are_resolved_against_the_current_url() {
        let here = Location::parse("http://a/x/y").unwrap();
        assert_eq!(here.join("/z").unwrap().cache_key(), "http://a:80/z");
        assert_eq!(here.join("http://b:81/q").unwrap().cache_key(), "http://b:81/q");
        assert_eq!(here.join("https://a/x/y").unwrap().cache_key(), "https://a:443/x/y");
    }
}

//! The rule for everything in a request that may be a secret.
//!
//! Secrets are tokens, passwords, client certificates, fields that the user adds, signatures of
//! object stores, fields that a server passes on to another one, and tokens in the query of a URL.
//! All of them are meant for the origin of the URL that the user gave. They go to another origin
//! only where the configuration allows that, and never from TLS to clear text
//! ([`Location::may_receive_credentials`]). It does not matter what led to the other origin: a
//! redirect, a Metalink document of a server or on this machine, `Link` fields, or a director.
//!
//! A secret that the request does not need is removed: the fields of [`request::builder`], the
//! words of [`without_tokens`]. A field that belongs to the request itself is marked as sensitive
//! where it is made; a redirect of such a request to an origin that may not get it is an error
//! ([`check_redirect`]).
//!
//! [`request::builder`]: crate::http::request::builder

use super::{Location, UserUrl, literal};
use hither_auth::{Credentials, Origin};
use hither_core::error::{Error, ErrorKind, Result};
use http::HeaderMap;
use std::sync::Arc;
use url::Url;

/// Words of a query that are tokens: of WLCG and SciTokens (`authz`, `access_token`).
const TOKEN_WORDS: [&str; 2] = ["authz", "access_token"];

impl Location {
    /// Parses a URL of a document on this machine. The author of the document is unknown, so its
    /// URLs do not count as given by the user: credentials go to their servers only where they may
    /// follow redirects. A user and password in it are ignored.
    ///
    /// # Errors
    ///
    /// As [`Location::parse`]; [`ErrorKind::Unsupported`] for a federation, whose servers get
    /// tokens.
    pub fn of_document(text: &str) -> Result<Self> {
        let url = Url::parse(&literal(text)).map_err(|error| {
            let text = redact_reference(text);
            Error::new(ErrorKind::Invalid, format!("{text:?} is not a URL: {error}"))
        })?;
        Self::from_url(url, Some(Arc::new(UserUrl::new(Origin::document()))))
    }

    /// The origin of the URL that the user gave.
    #[must_use]
    pub(crate) fn original_origin(&self) -> &Origin {
        &self.user_url.origin
    }

    /// The origin of the URL that the user gave, for messages and as a key.
    #[must_use]
    pub fn named_by(&self) -> String {
        self.user_url.origin.to_string()
    }

    /// Returns true if a redirect or a document led here from a URL of another origin.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.user_url.origin != self.current_origin()
    }

    /// Returns whether credentials for the original origin may be sent here.
    #[must_use]
    pub(crate) fn may_receive_credentials(&self, credentials: &Credentials) -> bool {
        credentials.may_follow(self.original_origin(), &self.current_origin())
    }

    /// `credentials`, with the user and password of the URL, if there are any.
    #[must_use]
    pub(crate) fn credentials(&self, credentials: &Credentials) -> Credentials {
        if self.user_url.signed {
            return Credentials::default();
        }
        match &self.user_url.basic {
            Some(basic) => credentials.for_url(self.user_url.origin.clone(), basic.clone()),
            None => credentials.clone(),
        }
    }

    /// The same URL, to which no token or password is sent: requests are signed by other means, or
    /// need no user.
    #[must_use]
    pub(crate) fn without_credentials(self) -> Self {
        Self {
            user_url: Arc::new(UserUrl { signed: true, ..UserUrl::clone(&self.user_url) }),
            ..self
        }
    }

    /// The same URL, with fields that every HTTP request has in place of the default ones: to its
    /// server, and to those to which credentials may follow a redirect.
    #[must_use]
    pub fn with_fields(self, mut fields: HeaderMap) -> Self {
        // They may be secrets.
        fields.values_mut().for_each(|value| value.set_sensitive(true));
        Self { user_url: Arc::new(UserUrl { fields, ..UserUrl::clone(&self.user_url) }), ..self }
    }

    /// These fields, if they may be sent here.
    #[must_use]
    pub(crate) fn fields(&self, credentials: &Credentials) -> Option<&HeaderMap> {
        let fields = Some(&self.user_url.fields).filter(|fields| !fields.is_empty())?;
        self.may_receive_credentials(credentials).then_some(fields)
    }

    /// Returns true if the URL has a query, which may be a token.
    pub(crate) fn has_query(&self) -> bool {
        self.url.query().is_some()
    }
}

/// Fails if a request with `fields`, redirected from `from` to `to`, has one that is not meant for
/// the server there.
///
/// # Errors
///
/// [`ErrorKind::PermissionDenied`].
pub(crate) fn check_redirect(
    fields: &HeaderMap,
    from: &Location,
    to: &Location,
    credentials: &Credentials,
) -> Result<()> {
    if to.may_receive_credentials(credentials) || !fields.values().any(|it| it.is_sensitive()) {
        return Ok(());
    }
    let what = format!(
        "{from}: the server redirects to {}, which may not get the credentials of this request: \
         if that is right, use the URL or the endpoint of that server",
        to.origin()
    );
    Err(Error::new(ErrorKind::PermissionDenied, what))
}

/// `text`, which may be a URL, for messages: without user, password, query and fragment. Of a text
/// with `://` that is not a URL, all is left out that may be one of these. Local paths and URLs of
/// an object store have none of them: all characters are those of a name.
#[must_use]
pub fn redact_url(text: &str) -> String {
    if let Some((bucket, key)) = text.strip_prefix("s3://").and_then(|rest| rest.split_once('/'))
        && !bucket.contains([':', '@', '?', '#'])
    {
        return format!("s3://{bucket}/{key}");
    }
    let (shown, rest) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let Some((scheme, whole)) = shown.split_once("://") else {
        return if text.contains("://") { shown } else { text }.to_owned();
    };
    if scheme.eq_ignore_ascii_case("file") {
        return text.to_owned();
    }
    if Url::parse(&literal(text)).is_err() {
        let shown = if rest.contains('@') { "..." } else { after_user(whole) };
        return format!("{scheme}://{shown}");
    }
    // Parsers take any number of slashes before the host.
    let host = whole.trim_start_matches(['/', '\\']);
    let (slashes, _) = whole.split_at(whole.len() - host.len());
    let (host, path) = host.split_at(host.find(['/', '\\']).unwrap_or(host.len()));
    format!("{scheme}://{slashes}{}{path}", after_user(host))
}

/// As [`redact_url`], for text that is not a local path, although it may have no `://`.
pub(super) fn redact_reference(text: &str) -> String {
    let shown = redact_url(text);
    if shown.contains("://") {
        return shown;
    }
    after_user(shown.split(['?', '#']).next().unwrap_or_default()).to_owned()
}

/// The text after the last `@`, or all of it.
fn after_user(text: &str) -> &str {
    text.rsplit_once('@').map_or(text, |(_, rest)| rest)
}

/// A query without the words that are tokens.
pub(crate) fn without_tokens(query: &str) -> String {
    let is_token = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        TOKEN_WORDS.iter().any(|token| name.eq_ignore_ascii_case(token))
    };
    query.split('&').filter(|word| !is_token(word)).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::{redact_reference, redact_url};

    #[test]
    fn urls_are_shown_without_what_may_be_a_secret() {
        for (url, shown) in [
            ("http://h/a?authz=hush#x", "http://h/a"),
            ("http://me:hush@h:80/a@b", "http://h:80/a@b"),
            ("http://me:hu@sh@h/a", "http://h/a"),
            ("http:///me:hush@h/a", "http:///h/a"),
            ("HTTPS://hush@h", "HTTPS://h"),
            ("davs://me:hush@h/a", "davs://h/a"),
            ("root://me:hush@h//a b?authz=hush", "root://h//a b"),
            ("pelican://me:hush@h/a", "pelican://h/a"),
            ("s3://hush:hush@bucket/a b", "s3://bucket/a b"),
            ("s3://hush:hu/sh@bucket/a?b", "s3://bucket/a"),
            ("s3://bucket?hush/a", "s3://bucket"),
            ("s3://bucket/a?b#c%20@d/e", "s3://bucket/a?b#c%20@d/e"),
            ("http://me:hush@h:bad/a", "http://h:bad/a"),
            ("http://me:hu/sh@h/a", "http://h/a"),
            ("http://me:hu?sh@h/a", "http://..."),
            ("http://me:hush#hush@h/a", "http://..."),
            ("ht tp://me:hush@h/?hush", "ht tp://h/"),
            ("/data/me@x", "/data/me@x"),
            ("/data/a?b#c", "/data/a?b#c"),
            ("/data/a?to=http://h/hush", "/data/a"),
            ("file:///data/me@x", "file:///data/me@x"),
            ("file:///data/a?b#c", "file:///data/a?b#c"),
        ] {
            assert_eq!(redact_url(url), shown, "{url}");
        }
    }

    #[test]
    fn a_reference_without_a_server_has_a_query_too() {
        for reference in
            ["/login?hush", "/login#hush", "me:hush@h/login?hush", "//me:hush@h/a?hush"]
        {
            assert!(!redact_reference(reference).contains("hush"), "{reference}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_password_is_never_shown(
            before in "[a-z]{1,5}",
            secret in "[A-Z]{6}[@:/?#\\[% ]{0,2}[A-Z]{6}",
            after in "[a-z:\\[]{1,8}/[a-z]{0,3}",
        ) {
            let shown = redact_url(&format!("http://{before}:{secret}@{after}?{secret}"));
            proptest::prop_assert!(!shown.contains(|c: char| c.is_ascii_uppercase()), "{shown}");
        }
    }
}

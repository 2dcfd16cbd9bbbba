//! The reason that a server gives in the body of an error response.

use crate::location::Location;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use std::cmp::Reverse;

/// The maximum number of characters that are shown of a server's reason.
const MAX_REASON: usize = 200;

/// Returns true if a body with these fields is plain text.
pub(crate) fn is_plain(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"))
}

/// The server's own reason in quotes, after a comma; nothing unless the body is plain text.
pub(crate) fn quoted_reason(headers: &HeaderMap, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.filter(|_| is_plain(headers)).map(quoted).unwrap_or_default()
}

/// The ends of texts that only repeat the status.
const STATUS_ALONE: [&str; 6] = [
    "access denied",
    "authentication is required",
    "authentication required",
    "forbidden",
    "permission denied",
    "unauthorized",
];

/// Returns true if a text of [`quoted_reason`] says more than the status of a refusal.
pub(crate) fn is_reason(quoted: &str) -> bool {
    let text = quoted.trim_end_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    !text.is_empty() && !STATUS_ALONE.iter().any(|it| text.ends_with(it))
}

/// A reason in quotes, after a comma, as part of the message of an error, which escapes it.
pub(crate) fn quoted(line: &str) -> String {
    let line: String = line.chars().take(MAX_REASON).collect();
    format!(", \"{line}\"")
}

/// Shorter values are not secrets, and may be words of any text.
const SECRET_BYTES: usize = 6;

/// The body of an error response without these secrets: servers quote fields and queries.
pub(crate) fn blanked(body: Bytes, secrets: Vec<String>) -> Bytes {
    match without(&String::from_utf8_lossy(&body), secrets) {
        Some(text) => text.into(),
        None => body,
    }
}

/// The texts that are secrets in these values of fields, and in all queries.
pub(crate) fn secret_texts<'a>(
    values: impl Iterator<Item = &'a HeaderValue>,
    location: &Location,
) -> Vec<String> {
    let mut secrets: Vec<String> = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| [value, value.rsplit(' ').next().unwrap_or_default()])
        .map(str::to_owned)
        .collect();
    let pairs: Vec<_> = secrets.iter().filter_map(|text| STANDARD.decode(text).ok()).collect();
    for pair in pairs.iter().filter_map(|pair| std::str::from_utf8(pair).ok()) {
        // The password of `Basic`.
        secrets.extend(pair.split_once(':').map(|(_, password)| password.to_owned()));
    }
    let urls = [&*secrets, &[location.target()]].concat();
    for query in urls.iter().filter_map(|url| Some(url.split_once('?')?.1)) {
        let values = query.split('&').filter_map(|pair| Some(pair.split_once('=')?.1));
        for text in std::iter::once(query).chain(values) {
            secrets.push(text.to_owned());
            secrets.push(percent_decode_str(text).decode_utf8_lossy().into_owned());
        }
    }
    secrets
}

/// A text without these secrets; `None` if it has none of them.
pub(crate) fn without(text: &str, mut secrets: Vec<String>) -> Option<String> {
    secrets.retain(|secret| secret.len() >= SECRET_BYTES && text.contains(secret.as_str()));
    // One may be a part of another.
    secrets.sort_unstable_by_key(|secret| Reverse(secret.len()));
    let blank = |text: String, secret: &String| text.replace(secret.as_str(), "...");
    (!secrets.is_empty()).then(|| secrets.iter().fold(text.to_owned(), blank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_the_server_is_quoted() {
        let plain =
            HeaderMap::from_iter([(CONTENT_TYPE, "text/plain; charset=utf-8".parse().unwrap())]);
        assert_eq!(
            quoted_reason(&plain, b"\n the server is \x1b[1mread-only \nmore"),
            ", \"the server is \x1b[1mread-only\""
        );
        assert_eq!(quoted_reason(&plain, &[b'x'; 1000]).len(), MAX_REASON + 4);
        let secrets = ["Bearer Secret", "Secret", "id=1"].map(str::to_owned);
        assert_eq!(
            blanked("GET /f?id=1 by Bearer Secret, Secret".into(), secrets.to_vec()),
            "GET /f?id=1 by ..., ..."
        );
        for (text, is_reason) in [
            (&b"the server is read-only"[..], true),
            (b"403 Forbidden\n", false),
            (b"Unable to open /x; permission denied.", false),
            (b"", false),
        ] {
            assert_eq!(super::is_reason(&quoted_reason(&plain, text)), is_reason, "{text:?}");
        }
        assert_eq!(quoted_reason(&plain, b" \n"), "");
        assert_eq!(quoted_reason(&HeaderMap::new(), b"<html>"), "");
    }
}

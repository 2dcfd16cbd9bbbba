//! The header fields of a third-party copy.
//!
//! They are the fields that WLCG's servers and clients share, and that davix and gfal2 send;
//! unknown fields are ignored.

use crate::http_error::HttpError;
use hither_transport::Location;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The maximum number of fields passed on to the other server.
const MAX_FIELDS: usize = 32;
/// The prefix of their names.
const PREFIX: &str = "transferheader";
/// The other form: `Copy-Header: Name: value`.
const COPY_HEADER: &str = "copy-header";
/// Fields that this server sets itself: a client that could set them could forge its requests.
const OWN: [HeaderName; 14] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::RANGE,
    header::IF_RANGE,
    header::PROXY_AUTHORIZATION,
];

/// A requested copy.
#[derive(Debug)]
pub(crate) struct CopyRequest {
    /// The file on the other server, with the fields passed on to it.
    pub(crate) other: Location,
    /// True if those fields include `Authorization`.
    pub(crate) has_authorization: bool,
    /// The requested number of connections.
    pub(crate) streams: Option<usize>,
    /// True if the other server must report a checksum.
    pub(crate) require_checksum: Option<bool>,
}

impl CopyRequest {
    /// Parses the header; `url` is the value of `Source` or `Destination`.
    pub(crate) fn parse(headers: &HeaderMap, url: &str) -> Result<Self, HttpError> {
        let text = |name: &str| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.map(|value| value.trim().to_ascii_lowercase())
        };
        if let Some(credential) = text("credential").filter(|credential| credential != "none") {
            return Err(bad(format!(
                "credential delegation is not supported (Credential: {credential:?}): send \"Credential: none\", and a token for the other server in TransferHeaderAuthorization"
            )));
        }
        let require_checksum = match text("requirechecksumverification").as_deref() {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err(bad("RequireChecksumVerification is neither true nor false")),
        };
        // Clients without a preference send 0 or an invalid number.
        let streams = text("x-number-of-streams").and_then(|text| text.parse().ok());
        let fields = forwarded_fields(headers)?;
        let has_authorization = fields.contains_key(header::AUTHORIZATION);
        let other = Location::parse(&http_url(url)).map_err(|error| bad(error.to_string()))?;
        let other = other.with_fields(fields);
        Ok(Self {
            other,
            has_authorization,
            streams: streams.filter(|streams| *streams > 0),
            require_checksum,
        })
    }
}

/// Replaces the schemes of grid clients by those of HTTP.
fn http_url(url: &str) -> String {
    let url = url.trim();
    match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("davs") => format!("https://{rest}"),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("dav") => format!("http://{rest}"),
        _ => url.to_owned(),
    }
}

fn forwarded_fields(headers: &HeaderMap) -> Result<HeaderMap, HttpError> {
    let mut fields = HeaderMap::new();
    for (name, value) in headers {
        let (name, value) = match name.as_str() {
            COPY_HEADER => parse_field(value)?,
            name => match name.strip_prefix(PREFIX) {
                None | Some("") => continue,
                Some(name) => (parse_name(name)?, value.clone()),
            },
        };
        if OWN.contains(&name) {
            return Err(bad(format!(
                "the header field {name:?} cannot be passed on to the other server"
            )));
        }
        if fields.len() >= MAX_FIELDS {
            let what = format!(
                "more than {MAX_FIELDS} header fields would be passed on to the other server"
            );
            return Err(bad(what));
        }
        fields.append(name, value);
    }
    Ok(fields)
}

fn parse_name(name: &str) -> Result<HeaderName, HttpError> {
    name.parse().map_err(|_| bad("the name of a TransferHeader field is not valid"))
}

/// Parses a field in the value of another.
fn parse_field(value: &HeaderValue) -> Result<(HeaderName, HeaderValue), HttpError> {
    let parts = value.to_str().ok().and_then(|text| text.split_once(':'));
    let (name, value) =
        parts.ok_or_else(|| bad("Copy-Header is not of the form \"Name: value\""))?;
    let value = HeaderValue::from_str(value.trim());
    let value = value.map_err(|_| bad("the value in Copy-Header is not valid"))?;
    Ok((parse_name(name.trim())?, value))
}

fn bad(what: impl Into<String>) -> HttpError {
    HttpError::new(StatusCode::BAD_REQUEST, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &[(&str, &str)]) -> Result<CopyRequest, HttpError> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        CopyRequest::parse(&headers, "davs://host:8443//a/b?authz=hush")
    }

    #[test]
    fn fields_of_common_clients_are_parsed() {
        let plain = parse(&[("Credential", "None"), ("X-Number-Of-Streams", "0")]).unwrap();
        assert_eq!(plain.other.to_string(), "https://host:8443//a/b");
        assert!(!plain.has_authorization && plain.streams.is_none());
        let full = parse(&[
            ("X-Number-Of-Streams", "3"),
            ("RequireChecksumVerification", "True"),
            ("TransferHeaderAuthorization", "Bearer hush"),
            ("Copy-Header", "X-More: hush"),
            ("TransferHeader", "nothing"),
        ])
        .unwrap();
        assert_eq!((full.streams, full.require_checksum), (Some(3), Some(true)));
        assert!(full.has_authorization);
        assert!(!format!("{full:?}").contains("hush"), "{full:?}");
    }

    #[test]
    fn an_error_names_the_field() {
        for (name, value, named) in [
            ("Credential", "gridsite", "TransferHeaderAuthorization"),
            ("RequireChecksumVerification", "maybe", "RequireChecksumVerification"),
            ("TransferHeaderHost", "hush", "host"),
            ("TransferHeaderRange", "hush", "range"),
            ("Copy-Header", "Transfer-Encoding: hush", "transfer-encoding"),
            ("Copy-Header", "hush", "Copy-Header"),
        ] {
            let error = parse(&[(name, value)]).unwrap_err();
            assert_eq!(error.status, StatusCode::BAD_REQUEST);
            assert!(error.what.contains(named), "{}", error.what);
            assert!(!error.what.contains("hush"), "{}", error.what);
        }
        let names: Vec<_> = (0..=MAX_FIELDS).map(|n| format!("TransferHeaderX{n}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        assert!(parse(&many[..MAX_FIELDS]).is_ok());
        assert!(parse(&many).unwrap_err().what.contains("more than"));
        for url in ["", "file:///etc/passwd", "https://", "https://host:99999/"] {
            assert!(CopyRequest::parse(&HeaderMap::new(), url).is_err(), "{url:?}");
        }
    }
}

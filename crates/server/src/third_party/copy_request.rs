//! What a client says of the copy that it wants.
//!
//! Fields as WLCG's servers and clients agree on them, and davix and gfal2 send them; what is not known here changes nothing.

use crate::http_error::HttpError;
use hither_transport::Location;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Fields that a client may have shown to the other server.
const MAX_FIELDS: usize = 32;
/// What is in front of their names.
const PREFIX: &str = "transferheader";
/// The other way to say so: `Copy-Header: Name: value`.
const COPY_HEADER: &str = "copy-header";
/// Fields by which the copy itself is made: whoever could set them would speak in this server's place.
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

/// What is wanted.
#[derive(Debug)]
pub(crate) struct CopyRequest {
    /// The file on the other server, with the fields that it is to be shown.
    pub(crate) other: Location,
    /// Whether those have a token or something else in `Authorization`.
    pub(crate) has_authorization: bool,
    /// Connections that are asked for.
    pub(crate) streams: Option<usize>,
    /// Whether the other server must tell a checksum.
    pub(crate) require_checksum: Option<bool>,
}

impl CopyRequest {
    /// Reads it from the header; `url` is the value of `Source` or `Destination`.
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
        // None or nonsense is what clients send who do not care.
        let streams = text("x-number-of-streams").and_then(|text| text.parse().ok());
        let fields = passed_on(headers)?;
        let has_authorization = fields.contains_key(header::AUTHORIZATION);
        let other = Location::parse(&plain(url)).map_err(|error| bad(error.to_string()))?;
        let other = other.with_fields(fields);
        Ok(Self {
            other,
            has_authorization,
            streams: streams.filter(|streams| *streams > 0),
            require_checksum,
        })
    }
}

/// What schemes of grid clients stand for.
fn plain(url: &str) -> String {
    let url = url.trim();
    match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("davs") => format!("https://{rest}"),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("dav") => format!("http://{rest}"),
        _ => url.to_owned(),
    }
}

fn passed_on(headers: &HeaderMap) -> Result<HeaderMap, HttpError> {
    let mut fields = HeaderMap::new();
    for (name, value) in headers {
        let (name, value) = match name.as_str() {
            COPY_HEADER => copied(value)?,
            name => match name.strip_prefix(PREFIX) {
                None | Some("") => continue,
                Some(name) => (named(name)?, value.clone()),
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

fn named(name: &str) -> Result<HeaderName, HttpError> {
    name.parse().map_err(|_| bad("the name of a TransferHeader field is not valid"))
}

/// Name and value of one field in the value of another.
fn copied(value: &HeaderValue) -> Result<(HeaderName, HeaderValue), HttpError> {
    let parted = value.to_str().ok().and_then(|text| text.split_once(':'));
    let (name, value) =
        parted.ok_or_else(|| bad("Copy-Header is not of the form \"Name: value\""))?;
    let value = HeaderValue::from_str(value.trim());
    Ok((named(name.trim())?, value.map_err(|_| bad("the value in Copy-Header is not valid"))?))
}

fn bad(what: impl Into<String>) -> HttpError {
    HttpError::new(StatusCode::BAD_REQUEST, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(fields: &[(&str, &str)]) -> Result<CopyRequest, HttpError> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        CopyRequest::parse(&headers, "davs://host:8443//a/b?authz=hush")
    }

    #[test]
    fn what_clients_say_is_understood() {
        let plain = order(&[("Credential", "None"), ("X-Number-Of-Streams", "0")]).unwrap();
        assert_eq!(plain.other.to_string(), "https://host:8443//a/b");
        assert!(!plain.has_authorization && plain.streams.is_none());
        let full = order(&[
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
    fn what_cannot_be_done_is_refused_by_name() {
        for (name, value, told) in [
            ("Credential", "gridsite", "TransferHeaderAuthorization"),
            ("RequireChecksumVerification", "maybe", "RequireChecksumVerification"),
            ("TransferHeaderHost", "hush", "host"),
            ("TransferHeaderRange", "hush", "range"),
            ("Copy-Header", "Transfer-Encoding: hush", "transfer-encoding"),
            ("Copy-Header", "hush", "Copy-Header"),
        ] {
            let refusal = order(&[(name, value)]).unwrap_err();
            assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
            assert!(refusal.what.contains(told), "{}", refusal.what);
            assert!(!refusal.what.contains("hush"), "{}", refusal.what);
        }
        let names: Vec<_> = (0..=MAX_FIELDS).map(|n| format!("TransferHeaderX{n}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        assert!(order(&many[..MAX_FIELDS]).is_ok());
        assert!(order(&many).unwrap_err().what.contains("more than"));
        for url in ["", "file:///etc/passwd", "https://", "https://host:99999/"] {
            assert!(CopyRequest::parse(&HeaderMap::new(), url).is_err(), "{url:?}");
        }
    }
}

//! Header fields that the user adds to all requests.

use hither_core::error::{Error, ErrorKind, Result};
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Fields whose value follows from the request itself, so that a user cannot set them.
const RESERVED: [HeaderName; 14] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::ACCEPT_ENCODING,
    header::CONTENT_TYPE,
];

/// Header fields that the user adds to all HTTP requests, in place of the default ones. They go to
/// the server of the URL that was given, and to those to which credentials may follow a redirect.
/// Their values may be secrets, and are never shown in messages.
#[derive(Debug, Clone, Default)]
pub struct CustomFields(HeaderMap);

impl CustomFields {
    /// Adds a field. A name may come several times.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it is not a field, or one that only the request itself can set.
    pub fn add(&mut self, name: &str, value: &str) -> Result<()> {
        let wrong = |why: &str| Error::new(ErrorKind::Invalid, format!("header {name:?}: {why}"));
        let field = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| wrong("expected the name of a header field, as in X-Name: value"))?;
        let mut value = HeaderValue::from_str(value.trim())
            .ok()
            .filter(|value| value.to_str().is_ok())
            .ok_or_else(|| wrong("expected a value of visible ASCII characters"))?;
        if RESERVED.contains(&field) {
            return Err(wrong("hither sets this field itself"));
        }
        value.set_sensitive(true);
        self.0.append(field, value);
        Ok(())
    }

    /// Names and values in turn.
    pub(crate) fn names_and_values(&self) -> Vec<&str> {
        let fields = self.0.iter();
        fields
            .flat_map(|(name, value)| [name.as_str(), value.to_str().unwrap_or_default()])
            .collect()
    }

    /// The fields.
    pub(crate) fn fields(&self) -> &HeaderMap {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_field_or_belongs_to_the_request_is_refused() {
        let mut fields = CustomFields::default();
        fields.add("X-Site", " T2 ").unwrap();
        fields.add("x-site", "T3").unwrap();
        assert_eq!(fields.fields().get_all("X-Site").iter().count(), 2);
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("X-Site", "a\r\nb: c"),
            ("X-Site", "é"),
            ("Range", "bytes=0-"),
            ("HOST", "h"),
        ] {
            let error = fields.add(name, value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {value}");
        }
        assert!(!format!("{fields:?}").contains("T2"));
    }
}

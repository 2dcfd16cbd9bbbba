//! The parts that a store has of an upload (ListParts).

use super::S3Storage;
use super::http_connector::element;
use crate::http::call::HttpRequest;
use crate::http::status_error;
use crate::location::Location;
use hither_core::error::{Error, ErrorKind, Result};
use http::{Method, StatusCode};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use std::collections::BTreeMap;
use std::time::Duration;

/// The maximum size of a page of a thousand parts, in bytes.
const PAGE_BYTES: usize = 1 << 20;
/// The validity of a signature: the request is sent at once.
const VALID: Duration = Duration::from_secs(300);

/// A part as the store has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredPart {
    /// The entity tag without quotes; not every store lists it.
    pub(super) tag: Option<String>,
    /// Its size in bytes.
    pub(super) bytes: u64,
}

/// A page of parts.
#[derive(Debug, Default, PartialEq, Eq)]
struct PartsPage {
    /// Parts by their number, from 0.
    parts: BTreeMap<u64, StoredPart>,
    is_truncated: bool,
}

impl S3Storage {
    /// The parts of the upload `id`, by their number from 0.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if the store has no such upload, and the errors of the request.
    pub(super) async fn parts(
        &self,
        path: &str,
        key: &Path,
        id: &str,
    ) -> Result<BTreeMap<u64, StoredPart>> {
        let mut parts = BTreeMap::new();
        loop {
            let after = parts.last_key_value().map_or(0, |(number, _)| number + 1);
            let page = self.page(path, key, id, after).await?;
            let last = page.parts.last_key_value().map(|(number, _)| *number);
            parts.extend(page.parts);
            if !page.is_truncated {
                return Ok(parts);
            }
            if last.is_none_or(|last| last < after) {
                let name = self.shown(path);
                let what = format!("{name}: the object store lists the same parts again");
                return Err(Error::new(ErrorKind::Protocol, what));
            }
        }
    }

    /// The parts after the first `after`.
    async fn page(&self, path: &str, key: &Path, id: &str, after: u64) -> Result<PartsPage> {
        let marker = after.to_string();
        let query = [("uploadId", id), ("part-number-marker", &*marker)];
        let options = SignedUrlOptions::default().with_query(query);
        let signed = self.store.signed_url_opts(Method::GET, key, VALID, &options).await;
        let mut url = signed.map_err(|error| self.failed(path, error))?;
        if self.identity.is_none() {
            url.query_pairs_mut().clear().extend_pairs(query);
        }
        let location = Location::parse(url.as_str())?.without_credentials();
        let mut call = HttpRequest::new(Method::GET, location);
        call.max_reply_bytes = PAGE_BYTES;
        let reply = self.network.call(call).await?;
        if reply.status != StatusCode::OK {
            return Err(status_error::of_response(&reply, "GET"));
        }
        page_of(&reply.body, id).ok_or_else(|| {
            let what = format!("{}: the answer is not a list of parts", self.shown(path));
            Error::new(ErrorKind::Protocol, what)
        })
    }
}

/// Parses a page of the parts of the upload `id` (`ListPartsResult`).
fn page_of(body: &[u8], id: &str) -> Option<PartsPage> {
    if unescaped(&element(body, "UploadId")?) != id {
        return None;
    }
    let is_truncated = element(body, "IsTruncated").is_some_and(|text| text.trim() == "true");
    let mut page = PartsPage { is_truncated, ..PartsPage::default() };
    for part in std::str::from_utf8(body).ok()?.split("<Part>").skip(1) {
        let field = |name| element(part.as_bytes(), name);
        let number: u64 = field("PartNumber")?.trim().parse().ok()?;
        let tag = field("ETag").map(|tag| unescaped(&tag).trim_matches('"').to_owned());
        let bytes = field("Size")?.trim().parse().ok()?;
        page.parts.insert(number.checked_sub(1)?, StoredPart { tag, bytes });
    }
    Some(page)
}

pub(super) fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&#34;", "\"").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_parts_is_read() {
        let text = "<?xml version=\"1.0\"?><ListPartsResult xmlns=\"http://s3\"><Key>f</Key>\
            <UploadId>a&amp;b</UploadId><IsTruncated>true</IsTruncated>\
            <Part><PartNumber>1</PartNumber><ETag>&quot;aa&quot;</ETag><Size>5242880</Size></Part>\
            <Part><PartNumber>3</PartNumber><ETag>\"bb\"</ETag><Size>7</Size></Part>\
            <Part><PartNumber>4</PartNumber><Size>8</Size></Part>\
            </ListPartsResult>";
        let page = page_of(text.as_bytes(), "a&b").unwrap();
        let part = |tag: Option<&str>, bytes| StoredPart { tag: tag.map(str::to_owned), bytes };
        assert!(page.is_truncated);
        let parts =
            [(0, part(Some("aa"), 5_242_880)), (2, part(Some("bb"), 7)), (3, part(None, 8))];
        assert_eq!(page.parts, BTreeMap::from(parts));
        assert_eq!(page_of(text.as_bytes(), "another"), None);
        assert_eq!(page_of(b"<html>Welcome</html>", "a"), None);
    }
}

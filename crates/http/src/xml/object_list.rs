//! A page of a list of objects: the response of S3 to `ListObjectsV2`.
//!
//! The list is complete only if its last page states so, so a document of another kind, or one that
//! does not state whether a page follows, is an error. Keys are used unchanged, including blanks.
//! Namespaces and prefixes differ between stores: only local names are compared.

use super::{Tokens, XmlError, seen};
use crate::text::excerpt;

/// Maximum depth: a page needs four.
const MAX_DEPTH: usize = 64;

/// A page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectList {
    /// Its objects, in the order of the store.
    pub objects: Vec<ListedObject>,
    /// Prefixes of keys, up to the delimiter, each of which represents several objects.
    pub prefixes: Vec<String>,
    /// The token of the next page; `None` for the last page.
    pub next: Option<String>,
}

/// An object of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedObject {
    /// Its key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// The date of its last change (RFC 3339).
    pub modified: String,
    /// Its entity tag, as listed.
    pub etag: Option<String>,
}

/// Reason why a page cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectListError {
    /// The document is not XML, or exceeds a limit.
    #[error("the list cannot be parsed: {0}")]
    Xml(#[from] XmlError),
    /// The document is XML of another kind.
    #[error("the response is an element \"{seen}\", expected \"ListBucketResult\"")]
    NotList {
        /// The outermost element, shortened and escaped.
        seen: String,
    },
    /// A value is invalid or missing.
    #[error("the list states an invalid {name}: \"{seen}\"")]
    Value {
        /// The element.
        name: &'static str,
        /// The value, shortened and escaped.
        seen: String,
    },
    /// A page follows, and its token is missing.
    #[error("the list goes on, and names no next page")]
    NoNext,
}

/// Parses a page of at most `max_bytes`.
///
/// # Errors
/// See [`ObjectListError`].
pub fn parse(document: &[u8], max_bytes: usize) -> Result<ObjectList, ObjectListError> {
    let mut tokens = Tokens::new(document, &[], max_bytes, MAX_DEPTH)?;
    let outermost = tokens.outermost()?;
    if outermost.as_ref().is_none_or(|element| element.local() != "ListBucketResult") {
        return Err(ObjectListError::NotList { seen: seen(outermost.as_ref()) });
    }
    let mut page = ObjectList::default();
    let mut flag = String::new();
    let mut marker = String::new();
    while let Some(element) = tokens.child()? {
        match element.local() {
            "IsTruncated" => flag = tokens.text_of_element(max_bytes)?,
            "NextMarker" => marker = tokens.text_of_element(max_bytes)?,
            "NextContinuationToken" => {
                let token = tokens.text_of_element(max_bytes)?;
                page.next = (!token.is_empty()).then_some(token);
            }
            "Contents" => page.objects.push(object(&mut tokens, max_bytes)?),
            "CommonPrefixes" => {
                while let Some(element) = tokens.child()? {
                    match element.local() {
                        "Prefix" => page.prefixes.push(tokens.whole_text_of_element(max_bytes)?),
                        _ => tokens.skip_element()?,
                    }
                }
            }
            _ => tokens.skip_element()?,
        }
    }
    let is_truncated = match flag.to_ascii_lowercase().as_str() {
        "true" | "1" => true,
        "false" | "0" => false,
        _ => return Err(invalid("IsTruncated", &flag)),
    };
    if page.next.is_none() && (is_truncated || !marker.is_empty()) {
        return Err(ObjectListError::NoNext);
    }
    Ok(page)
}

/// Reads an object, whose element has just been opened.
fn object(tokens: &mut Tokens<'_>, max_bytes: usize) -> Result<ListedObject, ObjectListError> {
    let mut found = ListedObject::default();
    let mut size = String::new();
    while let Some(element) = tokens.child()? {
        match element.local() {
            "Key" => found.key = tokens.whole_text_of_element(max_bytes)?,
            "Size" => size = tokens.text_of_element(max_bytes)?,
            "LastModified" => found.modified = tokens.text_of_element(max_bytes)?,
            "ETag" => found.etag = Some(tokens.text_of_element(max_bytes)?),
            _ => tokens.skip_element()?,
        }
    }
    found.size = size.parse().map_err(|_| invalid("Size", &size))?;
    if found.key.is_empty() {
        return Err(invalid("Key", ""));
    }
    Ok(found)
}

fn invalid(name: &'static str, value: &str) -> ObjectListError {
    ObjectListError::Value { name, seen: excerpt(value.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(content: &str) -> Result<ObjectList, ObjectListError> {
        let text = format!("<ListBucketResult xmlns:s=\"urn:s\">{content}</ListBucketResult>");
        parse(text.as_bytes(), 1 << 20)
    }

    fn next(content: &str) -> Option<String> {
        page(content).unwrap().next
    }

    #[test]
    fn a_page_is_read_and_its_keys_as_they_are() {
        let read = page(
            "<IsTruncated>false</IsTruncated><Marker/><NextMarker/><Contents><Key> a&amp;\tb </Key>\
             <LastModified> 2023-11-14T22:13:20.000Z</LastModified><ETag>&quot;1&quot;</ETag>\
             <Size>7</Size><Owner><ID>Key</ID></Owner></Contents>\
             <CommonPrefixes><Prefix>d /</Prefix><Prefix>e/</Prefix></CommonPrefixes>",
        );
        let read = read.unwrap();
        let object = ListedObject {
            key: " a&\tb ".to_owned(),
            size: 7,
            modified: "2023-11-14T22:13:20.000Z".to_owned(),
            etag: Some("\"1\"".to_owned()),
        };
        assert_eq!(read.objects, [object]);
        assert_eq!(read.prefixes, ["d /", "e/"]);
        assert_eq!(read.next, None);
    }

    #[test]
    fn a_page_that_goes_on_names_the_next_one_in_any_spelling() {
        let token = "<NextContinuationToken>t</NextContinuationToken>";
        for flag in [
            "<IsTruncated>true</IsTruncated>",
            "<IsTruncated>True</IsTruncated>",
            "<IsTruncated> 1 </IsTruncated>",
            "<IsTruncated a='b'>true</IsTruncated>",
            "<s:IsTruncated>true</s:IsTruncated>",
        ] {
            assert_eq!(next(&format!("{flag}{token}")).as_deref(), Some("t"), "{flag}");
            let empty = "<NextContinuationToken> </NextContinuationToken>";
            for lacks in ["", empty, "<NextMarker>a</NextMarker>"] {
                let error = page(&format!("{flag}{lacks}")).unwrap_err();
                assert_eq!(error, ObjectListError::NoNext, "{flag}{lacks}");
            }
        }
        let last = "<IsTruncated>false</IsTruncated>";
        assert_eq!(next(&format!("{last}{token}")).as_deref(), Some("t"), "a store names one");
        let error = page(&format!("{last}<NextMarker>a</NextMarker>")).unwrap_err();
        assert_eq!(error, ObjectListError::NoNext, "of the first version of lists");
    }

    #[test]
    fn what_does_not_say_that_it_ends_is_no_last_page() {
        for content in [
            "",
            "<IsTruncated/>",
            "<IsTruncated>no</IsTruncated>",
            "<IsTruncated>false</IsTruncated><Contents><Key>a</Key></Contents>",
            "<IsTruncated>false</IsTruncated><Contents><Size>1</Size></Contents>",
        ] {
            let error = page(content).unwrap_err();
            assert!(matches!(error, ObjectListError::Value { .. }), "{content}: {error}");
        }
        for other in ["<Error><Code>InternalError</Code></Error>", "<html/>", ""] {
            let error = parse(other.as_bytes(), 1 << 20).unwrap_err();
            assert!(matches!(error, ObjectListError::NotList { .. }), "{other}: {error}");
        }
        let page = "<ListBucketResult><IsTruncated>false</IsTruncated>";
        let end = "</ListBucketResult>";
        assert_eq!(parse(format!("{page}{end}\n").as_bytes(), 1 << 20), Ok(ObjectList::default()));
        for wrong in [
            "text".to_owned(),
            page.to_owned(),
            format!("{page}{end}{page}{end}"),
            format!("{page}{end}out of memory"),
        ] {
            let read = parse(wrong.as_bytes(), 1 << 20);
            assert!(matches!(read, Err(ObjectListError::Xml(_))), "{read:?}");
        }
    }
}

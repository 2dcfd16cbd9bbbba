//! The version that the requests of a job are bound to.

use crate::error::{Error, ErrorKind, Result};
use crate::{is_entity_tag, validators_differ};
use std::sync::{Arc, OnceLock};

/// The version of a file that all requests with a clone of this binding read: the version that the
/// first response names.
///
/// A source binds it when the head of a response has arrived, before it delivers a byte. So
/// requests in flight at the same time read one version, and so does the rest of a request whose
/// response was interrupted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionBinding(Arc<BoundVersion>);

#[derive(Debug, Default, PartialEq, Eq)]
struct BoundVersion {
    size: OnceLock<u64>,
    validator: OnceLock<String>,
    modified: OnceLock<String>,
    /// A server, and the entity tag of its first response.
    tag: OnceLock<(String, String)>,
}

impl VersionBinding {
    /// The validator of the version, once a response has named one.
    #[must_use]
    pub fn validator(&self) -> Option<&str> {
        self.0.validator.get().map(String::as_str)
    }

    /// The size of the file in bytes, once a response has stated one.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.0.size.get().copied()
    }

    /// The date of last modification as sent, once a response has named one.
    #[must_use]
    pub fn modified(&self) -> Option<&str> {
        let is_date = |text: &&str| !is_entity_tag(text);
        self.0.modified.get().map(String::as_str).or_else(|| self.validator().filter(is_date))
    }

    /// The entity tag of the first response that had one. It may be weak.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.0.tag.get().map(|(_, tag)| tag.as_str())
    }

    /// Keeps the date of last modification that a response states in addition to its validator, if
    /// no response stated one before.
    pub fn note_modified(&self, date: &str) {
        self.0.modified.get_or_init(|| date.to_owned());
    }

    /// Returns true if responses of two servers show that their files are the same version: sizes
    /// that do not differ, and equal strong entity tags or equal dates.
    ///
    /// ```
    /// use hither_core::VersionBinding;
    ///
    /// let [one, other] = [VersionBinding::default(), VersionBinding::default()];
    /// one.bind("f", Some(5), Some("\"a\""))?;
    /// other.bind("f", Some(5), Some("\"b\""))?;
    /// assert!(!one.agrees_with(&other));
    /// for version in [&one, &other] {
    ///     version.note_modified("Sun, 22 Nov 2026 10:00:00 GMT");
    /// }
    /// assert!(one.agrees_with(&other));
    /// # Ok::<(), hither_core::Error>(())
    /// ```
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        let same_size = self.size().zip(other.size()).is_none_or(|(one, other)| one == other);
        let is_tag = |text: &&str| text.starts_with('"');
        let tags = (self.validator().filter(is_tag), other.validator().filter(is_tag));
        let is_equal = |(one, other): (Option<&str>, Option<&str>)| one.is_some() && one == other;
        same_size && (is_equal(tags) || is_equal((self.modified(), other.modified())))
    }

    /// Binds to the version that a response for the file `name` states, as far as it states one and
    /// no response did before.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`] if an earlier response was of another version.
    pub fn bind(&self, name: &str, size: Option<u64>, validator: Option<&str>) -> Result<()> {
        let changed = |was: String, is: String| {
            let what =
                format!("{name}: the file changed on the server: it was {was}, now it is {is}");
            Err(Error::new(ErrorKind::Changed, what))
        };
        if let Some(seen) = validator {
            let bound = self.0.validator.get_or_init(|| seen.to_owned());
            if validators_differ(bound, seen) {
                return changed(bound.clone(), seen.to_owned());
            }
        }
        match size.map(|seen| (*self.0.size.get_or_init(|| seen), seen)) {
            Some((bound, seen)) if bound != seen => {
                changed(format!("{bound} bytes"), format!("{seen} bytes"))
            }
            _ => Ok(()),
        }
    }

    /// Binds to the entity tag in a response of `server` for the file `name`. Equal weak tags prove
    /// nothing, but different ones prove a change. Tags of two servers cannot be compared: one of
    /// another server than that of the first response is not.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`] if an earlier response of this server had another tag.
    pub fn bind_tag(&self, name: &str, server: &str, tag: &str) -> Result<()> {
        let (of, bound) = self.0.tag.get_or_init(|| (server.to_owned(), tag.to_owned()));
        if of == server && validators_differ(bound, tag) {
            let what = format!(
                "{name}: the file changed on the server: its entity tag was {bound}, now it is {tag}"
            );
            return Err(Error::new(ErrorKind::Changed, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_response_binds_all_clones() {
        let binding = VersionBinding::default();
        let other = binding.clone();
        binding.bind("f", None, None).unwrap();
        binding.bind("f", Some(5), Some("\"a\"")).unwrap();
        assert_eq!(other.validator(), Some("\"a\""));
        // A response may state less, or a validator of another kind.
        other.bind("f", None, None).unwrap();
        other.bind("f", Some(5), Some("Sun, 22 Nov 2026 10:00:00 GMT")).unwrap();
        for (size, validator) in [(Some(5), Some("\"b\"")), (Some(6), None)] {
            assert_eq!(other.bind("f", size, validator).unwrap_err().kind(), ErrorKind::Changed);
        }
    }

    #[test]
    fn weak_tags_of_one_server_that_differ_show_a_change() {
        let binding = VersionBinding::default();
        for (server, tag, is_changed) in [
            ("a", "W/\"1\"", false),
            ("a", "W/\"1\"", false),
            ("a", "\"1\"", false),
            ("a", "W/\"2\"", true),
            ("a", "\"2\"", true),
            ("b", "W/\"2\"", false),
        ] {
            let bound = binding.bind_tag("f", server, tag);
            let kind = bound.err().map(|error| error.kind());
            assert_eq!(kind, is_changed.then_some(ErrorKind::Changed), "{server} {tag}");
        }
        assert_eq!(binding.tag(), Some("W/\"1\""));
    }
}

//! The check that a response to HEAD is of the version that was read.

use super::HttpSource;
use crate::http::call::HttpResponse;
use crate::http::exchange::version_check::entity_tag;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Request, VersionBinding};
use hither_http::{ResponseHead, Validator};
use std::sync::atomic::Ordering;

impl HttpSource {
    /// Returns true if the current server has stated the checksum of a file.
    pub(crate) fn states_checksums(&self) -> bool {
        self.targets.current().pool.server().has_checksums.load(Ordering::Relaxed)
    }

    /// Compares the version in a response to HEAD with the one that was read. A server other than
    /// the one that it was read from may have other dates and tags. Some servers state a size of 0
    /// for what they do not know.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`] if it is another one.
    pub(crate) async fn check_head(
        &self,
        head: &HttpResponse,
        version: &VersionBinding,
    ) -> Result<()> {
        let target = self.targets.current();
        if head.location.origin() != target.location.origin() {
            return Ok(());
        }
        let name = self.location().to_string();
        let size = ResponseHead::of(head.status, &head.headers).size;
        version.bind(&name, size.filter(|size| *size > 0), None)?;
        let date = Validator::date(&head.headers);
        let date = date.as_ref().and_then(|date| date.if_range().to_str().ok());
        match (version.modified(), date) {
            (Some(was), Some(now)) if was != now => {
                let what = format!(
                    "{name}: the file changed on the server: it was of {was}, now it is of {now}"
                );
                return Err(Error::new(ErrorKind::Changed, what));
            }
            _ => {}
        }
        let Some(tag) = entity_tag(&head.headers) else { return Ok(()) };
        let bound = version.bind_tag(&name, &target.location.origin(), tag);
        let (Err(error), Some(tag)) = (bound, version.tag()) else { return Ok(()) };
        let request = Request { version: version.clone(), ..Request::default() };
        let has_own_tags = target.pool.server().has_own_tags()
            || self.own_tags.are_found(&self.targets, &target, &request, tag).await;
        if has_own_tags { Ok(()) } else { Err(error) }
    }
}

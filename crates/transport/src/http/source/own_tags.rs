//! Entity tags that differ between the machines of a server, for one version of the file.
//!
//! Several machines behind one name may each have entity tags of their own for the same file, for
//! example from its inode number. A request that is bound to the tag of one machine then fails at
//! another as if the file had changed. A replaced file does not get its old tag back: if a server
//! sends that tag again after another one, both with the same size and date of last change, its
//! tags are not used any more, and versions are distinguished by date and size. The same holds for
//! weak tags, which a server may send without a date: then only the size is left.

use super::targets::{HttpTarget, HttpTargets};
use crate::http::exchange::version_check::entity_tag;
use crate::http::request;
use crate::pool::observation::{ExchangeOutcome, ExchangeResult};
use hither_core::{Request, ResponseMeta, is_entity_tag, validators_differ};
use http::header;
use std::sync::OnceLock;
use tokio::sync::OnceCell;
use tracing::warn;

/// The maximum number of HEAD requests for both tags.
const MAX_LOOKS: usize = 8;

/// The evidence of one file about the tags of its server.
#[derive(Debug, Default)]
pub(super) struct OwnTags {
    /// The validator in the first response.
    first: OnceLock<String>,
    /// Set once a response had another tag; `None` if that was another version of the file.
    dated: OnceCell<Option<DatedTag>>,
}

/// The tag with which a file was opened at a server whose tags do not name versions, and the date
/// of that version, which may be missing beside a weak tag.
#[derive(Debug)]
struct DatedTag {
    tag: String,
    date: Option<String>,
}

impl OwnTags {
    pub(super) fn are_known(&self) -> bool {
        self.dated.get().is_some()
    }

    /// The validator in the condition of a request.
    pub(super) fn condition(&self, request: &Request) -> Option<String> {
        let validator = bound(request)?;
        let dated = self.dated.get().and_then(|dated| dated.as_ref());
        let dated = dated.filter(|dated| dated.tag == validator);
        dated.map_or(Some(validator), |dated| dated.date.as_deref()).map(str::to_owned)
    }

    /// Returns true if the response to a request seems to be of another version, but HEAD requests
    /// show that the server's tags do not name versions: the request may succeed without them.
    /// Returns false if that was known when it was sent.
    pub(super) async fn are_shown(
        &self,
        targets: &HttpTargets,
        target: &HttpTarget,
        request: &Request,
        was_known: bool,
        result: &ExchangeResult,
    ) -> bool {
        if let Ok(ExchangeOutcome::Complete(ResponseMeta { validator: Some(tag), .. })) =
            &result.outcome
        {
            self.first.get_or_init(|| tag.clone());
        }
        let Some(tag) = bound_tag(request).filter(|_| result.has_other_tag && !was_known) else {
            return false;
        };
        // A tag in a listing may be one that no file is sent with.
        let version = &request.version;
        let first = self.first.get().map(String::as_str);
        let seen = [first, version.validator(), version.tag()].into_iter().flatten();
        if !seen.filter(|it| is_entity_tag(it)).any(|seen| !validators_differ(seen, tag)) {
            return false;
        }
        self.are_found(targets, target, request, tag).await
    }

    /// Returns true if HEAD requests show that the server has several tags for the version with
    /// this one.
    pub(super) async fn are_found(
        &self,
        targets: &HttpTargets,
        target: &HttpTarget,
        request: &Request,
        tag: &str,
    ) -> bool {
        let dated = self.dated.get_or_init(|| look_for_date(targets, target, request, tag)).await;
        dated.as_ref().is_some_and(|dated| dated.tag == tag)
    }
}

/// The entity tag that a request is bound to.
fn bound_tag(request: &Request) -> Option<&str> {
    bound(request).filter(|it| is_entity_tag(it)).or_else(|| request.version.tag())
}

/// The validator that a request is bound to.
fn bound(request: &Request) -> Option<&str> {
    request.validator.as_deref().or_else(|| request.version.validator())
}

/// The date of the version that has this tag, if the server sends another tag for it, too.
async fn look_for_date(
    targets: &HttpTargets,
    target: &HttpTarget,
    request: &Request,
    tag: &str,
) -> Option<DatedTag> {
    let HttpTarget { location, pool } = target;
    let mut version = None;
    let mut has_tag = false;
    let mut has_other = false;
    for _ in 0..MAX_LOOKS {
        let mut connection = targets.connection(target, request).await.ok()?;
        let (response, headers) = request::head(&mut connection, location, pool).await.ok()?;
        connection.give_back();
        let date = headers.get(header::LAST_MODIFIED).and_then(|it| it.to_str().ok());
        if date.is_none() && !tag.starts_with("W/") {
            return None;
        }
        let now = (date.map(str::to_owned), response.size?);
        if *version.get_or_insert_with(|| now.clone()) != now {
            return None;
        }
        if validators_differ(entity_tag(&headers)?, tag) {
            has_other = true
        } else {
            has_tag = true
        }
        if has_tag && has_other {
            // Logged as a warning, because it is an assumption.
            warn!(
                target: "hither_wait",
                "{location}: the server has several entity tags for one version: what agrees in \
                 date and size is taken for one file"
            );
            pool.server().learn_own_tags();
            return Some(DatedTag { tag: tag.to_owned(), date: now.0 });
        }
    }
    None
}

//! Conflicts (409) of requests that make a name.
//!
//! With this status servers report that the parent directory does not exist, and also other
//! conflicts. Only a request for the parent distinguishes the two. If the parent exists, another
//! client may have made it since the request, so a request that can be repeated is sent again. A
//! piece of a file is not: its file may have been removed, and a server would begin another one.

use super::session::WebDavSession;
use crate::http::call::change::{self, ChangeOutcome};
use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::request_body::RequestBody;
use crate::http::status_error;
use hither_core::error::{ErrorKind, Result};
use hither_core::storage::{DirEntry, FileKind, parent};
use http::header;

impl WebDavSession {
    /// Sends a request that makes `name`, or removes it.
    pub(super) async fn change(&self, call: HttpRequest, name: &str) -> Result<ChangeOutcome> {
        let is_whole = !matches!(call.content, RequestBody::Stream(_))
            && !call.headers.contains_key(header::CONTENT_RANGE);
        let outcome = self.change_once(call.clone()).await?;
        let method = call.method.clone();
        let is_conflict =
            |reply: &HttpResponse| status_error::is_conflict(reply.status, method.as_str());
        let mut reply = match outcome {
            ChangeOutcome::Refused(reply) if is_conflict(&reply) => reply,
            outcome => return Ok(outcome),
        };
        let there = self.look_for(parent(name), true).await;
        let is_directory = |it: &DirEntry| it.kind == FileKind::Directory;
        let is_there = matches!(&there, Ok(Some(it)) if is_directory(it));
        if is_there && is_whole {
            reply = match self.change_once(call).await? {
                ChangeOutcome::Refused(reply) if is_conflict(&reply) => reply,
                outcome => return Ok(outcome),
            };
        }
        let (kind, what) = match there {
            Ok(Some(_)) if is_there && is_whole => {
                (ErrorKind::Invalid, "the parent directory exists: something else is in the way")
            }
            Ok(Some(_)) if is_there => {
                (ErrorKind::Unavailable, "the parent directory exists now, try again")
            }
            Ok(Some(_)) => (ErrorKind::Invalid, "its parent is not a directory"),
            Ok(None) => (ErrorKind::NotFound, "the parent directory does not exist"),
            Err(_) => (ErrorKind::NotFound, "the parent directory may not exist"),
        };
        let mut error = status_error::conflict(&reply, method.as_str(), kind, what);
        if let Err(failed) = there {
            error = error.map_message(|text| format!("{text} (looking failed: {failed})"));
        }
        reply.refusal = Some(error);
        Ok(ChangeOutcome::Refused(reply))
    }

    async fn change_once(&self, call: HttpRequest) -> Result<ChangeOutcome> {
        let method = call.method.clone();
        let requested = call.location.clone();
        change::outcome(&method, &requested, self.call(call).await)
    }
}

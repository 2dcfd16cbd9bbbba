//! PUT: the test of an unknown server, and the meaning of responses.

use super::session::WebDavSession;
use crate::http::call::HttpRequest;
use crate::http::call::change::{ChangeOutcome, TargetBefore};
use crate::http::request_body::RequestBody;
use crate::http::status_error;
use bytes::Bytes;
use hither_core::error::{Effect, Error, ErrorKind, Result};
use hither_core::storage::{
    DirEntry, FileKind, PutOptions, parent, partial_token, sibling, unique_partial_name,
};
use http::{Method, StatusCode};

/// The path of a file until it is whole. A file in one piece replaces the one that an earlier
/// attempt left; pieces would leave bytes of that between them.
pub(super) fn name_aside(path: &str, options: &PutOptions, pieces: bool) -> String {
    if pieces { sibling(path, &unique_partial_name(path)) } else { options.partial_path(path) }
}

impl WebDavSession {
    /// The name that an earlier attempt used, if it can be resumed. It need not have its length
    /// yet: the last piece sets it.
    pub(super) async fn resumed(&self, path: &str, options: &PutOptions) -> Result<Option<String>> {
        let Some(token) = options.resume.as_deref().and_then(partial_token) else {
            return Ok(None);
        };
        let at = sibling(path, token);
        let there = self.look(&at).await?;
        let same = |entry: &DirEntry| {
            entry.kind == FileKind::File && entry.size.is_some_and(|size| size <= options.size)
        };
        Ok(there.as_ref().is_some_and(same).then_some(at))
    }

    /// Tests what the server supports. Returns the name to write to, and whether to send pieces.
    pub(super) async fn try_out(
        &self,
        path: &str,
        size: u64,
        before: Option<&DirEntry>,
    ) -> Result<(String, bool)> {
        let first = sibling(path, &unique_partial_name(path));
        let put = |at: &str, bytes: &'static [u8]| {
            HttpRequest::new(Method::PUT, self.root.below(at, false))
                .with_effect(Effect::Own)
                .with_content(RequestBody::Bytes(Bytes::from_static(bytes)))
        };
        if let Some(unseen) =
            self.stored(&first, self.change(put(&first, b""), &first).await?).await?
        {
            let file = DirEntry::new(&first, FileKind::File, 0);
            self.check_size(&file).await.map_err(|error| match error.kind() {
                ErrorKind::NotFound => unseen,
                _ => error,
            })?;
        }
        let at = sibling(path, &unique_partial_name(path));
        let empty = DirEntry::new(&first, FileKind::File, 0);
        match self.move_to(&empty, &at, TargetBefore::Nothing, None, None).await {
            Ok(()) => self.learn(|names| names.moves = Some(true)),
            Err(error) => {
                drop(self.discard(&first).await);
                let may_be = before.is_none() || error.kind() == ErrorKind::Unsupported;
                if !self.cannot_move(&error, path) || !may_be {
                    return Err(error);
                }
                self.check_replaceable(before).await?;
                return Ok((path.to_owned(), false));
            }
        }
        let last = size - 1;
        let piece = put(&at, b"\0").with("content-range", &format!("bytes {last}-{last}/{size}"));
        let taken = matches!(self.change(piece, &at).await?, ChangeOutcome::Done(_));
        let pieces = taken && self.look(&at).await?.is_some_and(|entry| entry.size == Some(size));
        self.learn(|names| names.pieces = Some(pieces));
        Ok((at, pieces))
    }

    /// Fails if the server refuses a PUT. Returns the error to report if the PUT turns out not to
    /// be carried out, where the response leaves that open.
    pub(super) async fn stored(&self, at: &str, outcome: ChangeOutcome) -> Result<Option<Error>> {
        let reply = match outcome {
            ChangeOutcome::Done(_) => return Ok(None),
            ChangeOutcome::Unseen(error) => return Ok(Some(error)),
            ChangeOutcome::Refused(reply) => reply,
        };
        let error = status_error::of_response(&reply, "PUT");
        // nginx cannot open a file in a missing directory, and responds with 500.
        if reply.status == StatusCode::INTERNAL_SERVER_ERROR
            && self.look(parent(at)).await?.is_none()
        {
            return Err(self.missing(parent(at)));
        }
        Err(error)
    }

    /// The number of signs so far that the server may have been restarted.
    pub(super) fn interruptions(&self) -> u64 {
        self.pool().interruptions()
    }
}

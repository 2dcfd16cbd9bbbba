//! MOVE: renaming files and directories, and giving a file that was uploaded its name.

use super::listing;
use super::session::{WebDavSession, X_OC_MTIME};
use crate::http::call::HttpRequest;
use crate::http::call::change::{Seen, TargetBefore};
use crate::http::request;
use crate::http::status_error;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{
    DirEntry, FileKind, PutOptions, changed_since_read, check_version, parent,
};
use hither_http::date::LAST_SECOND;
use http::{StatusCode, header};
use std::time::{SystemTime, UNIX_EPOCH};

impl WebDavSession {
    /// Sends a MOVE, with the time of the file if there is one. An existing `to` is
    /// [`ErrorKind::AlreadyExists`] unless it is the entry `before`; so is one with another entity
    /// tag than `tag`, where the server compares it.
    pub(super) async fn move_to(
        &self,
        from: &DirEntry,
        to: &str,
        mut before: TargetBefore<'_>,
        tag: Option<&str>,
        mtime: Option<&str>,
    ) -> Result<()> {
        let directory = from.kind == FileKind::Directory;
        let replace = matches!(before, TargetBefore::Entry(_));
        if self.root.is_in_federation() {
            let place = self.root.below(&from.path, directory);
            let what =
                format!("{place}: a federation renames nothing: copy it, and remove it here");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if !replace && self.names().replaces {
            if self.look(to).await?.is_some() {
                return Err(self.exists(to));
            }
            before = TargetBefore::Nothing;
        }
        let destination = if self.names().replaces {
            request::check_uncut(&self.root.below(to, directory))?;
            // XrdHttp 5.5 takes the name literally, up to a question mark, and drops bytes from its
            // end that are not printable ASCII: "aü" became "a".
            let end = if to.ends_with(|it: char| it.is_ascii_graphic()) { "" } else { "?" };
            format!("{}{to}{end}", self.root.below("", true))
        } else {
            self.root.below(to, directory).to_string()
        };
        let moving = || {
            let call = self
                .request(b"MOVE", &from.path, directory)
                .with("destination", &destination)
                .with("overwrite", if replace { "T" } else { "F" });
            // RFC 4918 section 10.4: a condition on another resource than that of the request.
            let condition = tag.map(|tag| format!("<{destination}> ([{tag}])"));
            let call = condition.iter().fold(call, |call, condition| call.with("if", condition));
            mtime.into_iter().fold(call, |call, mtime| call.with(X_OC_MTIME, mtime))
        };
        let look = || async {
            let left = self.look_for(&from.path, directory);
            let there = async {
                match self.look_for(to, directory).await? {
                    Some(there) => listing::with_size(self, there).await.map(Some),
                    None => Ok(None),
                }
            };
            let (left, there) = futures_util::try_join!(left, there)?;
            Ok(Seen::moved(from, before, left.as_ref(), there.as_ref()))
        };
        match self.carry_out(to, moving, look).await? {
            None => Ok(()),
            Some(reply) if reply.status == StatusCode::PRECONDITION_FAILED => Err(self.exists(to)),
            Some(reply) => Err(status_error::of_response(&reply, "MOVE")),
        }
    }

    /// Moves a file, and replaces at most another file. A file whose size is not confirmed yet
    /// (`is_unseen`) is checked before it replaces anything.
    pub(super) async fn move_file(
        &self,
        from: &DirEntry,
        to: &str,
        before: TargetBefore<'_>,
        overwrite: bool,
        is_unseen: bool,
        mtime: Option<&str>,
    ) -> Result<()> {
        use ErrorKind::{AlreadyExists, Invalid, NotFound};
        match self.move_to(from, to, before, None, mtime).await {
            // nginx responds with "conflict" if it is a directory, and other errors may have
            // reasons that show now.
            Err(error)
                if overwrite && matches!(error.kind(), AlreadyExists | Invalid | NotFound) =>
            {
                match self.look(to).await? {
                    Some(there) if there.kind == FileKind::Directory => Err(self.is_directory(to)),
                    Some(there) => {
                        if is_unseen {
                            self.check_size(from).await?;
                        }
                        let before = TargetBefore::Entry(&there);
                        self.move_to(from, to, before, None, mtime).await
                    }
                    None => Err(error),
                }
            }
            done => done,
        }
    }

    /// Moves a file to the name of the one of version `expected`, and replaces no other.
    pub(super) async fn replace_version(
        &self,
        from: &DirEntry,
        to: &str,
        expected: &DirEntry,
        mtime: Option<&str>,
    ) -> Result<()> {
        self.check_version(to, expected).await?;
        let before = TargetBefore::Entry(expected);
        if let Some(tag) = expected.strong_tag().filter(|_| !self.names().replaces) {
            match self.move_to(from, to, before, Some(tag), mtime).await {
                // Servers whose conditions are about locks alone refuse any tag (Go's webdav).
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    self.check_version(to, expected).await?;
                }
                done => return done,
            }
        }
        self.move_to(from, to, before, None, mtime).await
    }

    /// Fails unless the file at `path` is of the version `expected`.
    pub(super) async fn check_version(&self, path: &str, expected: &DirEntry) -> Result<()> {
        let now = match listing::sized(self, path).await {
            Ok(entry) => Some(self.comparable(entry)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        check_version(expected, now.as_ref(), self.root.below(path, false))
    }

    /// Gives a file that was uploaded its name. A file whose size is not confirmed yet
    /// (`is_unseen`) is checked before it replaces anything.
    pub(super) async fn give_name(
        &self,
        from: &DirEntry,
        to: &str,
        options: &PutOptions,
        is_unseen: bool,
        mtime: Option<&str>,
    ) -> Result<()> {
        let Some(expected) = &options.expected else {
            // Nobody else knows the name of `from`.
            let before = TargetBefore::Nothing;
            return self.move_file(from, to, before, options.overwrite, is_unseen, mtime).await;
        };
        if is_unseen {
            self.check_size(from).await?;
        }
        self.replace_version(from, to, expected, mtime).await
    }

    /// A PUT to the name of a file with the condition of these options.
    pub(super) fn conditional(&self, put: HttpRequest, options: &PutOptions) -> HttpRequest {
        match &options.expected {
            Some(expected) => {
                let tag = expected.strong_tag().into_iter();
                tag.fold(put, |put, tag| put.with(header::IF_MATCH, tag))
            }
            None if options.overwrite => put,
            None => put.with(header::IF_NONE_MATCH, "*"),
        }
    }

    /// Fails where a PUT to the file's own name would replace a file, and no later check could show
    /// that the server has all bytes.
    pub(super) async fn check_replaceable(&self, there: Option<&DirEntry>) -> Result<()> {
        let Some(there) = there.filter(|it| it.size.is_none()) else { return Ok(()) };
        if listing::with_size(self, there.clone()).await?.size.is_some() {
            return Ok(());
        }
        let place = self.root.below(&there.path, false);
        let what = format!(
            "{place} cannot be replaced: the server renames no files and tells no sizes, so \
             nothing would show that it has all of the new one; remove the old one first"
        );
        Err(Error::new(ErrorKind::Unsupported, what))
    }

    /// The error of an upload with these options: a server that compares entity tags sends the same
    /// response as for an existing file.
    pub(super) fn of_upload(&self, error: Error, path: &str, options: &PutOptions) -> Error {
        if options.expected.is_none() || error.kind() != ErrorKind::AlreadyExists {
            return error;
        }
        changed_since_read(self.root.below(path, false), "")
    }

    /// Returns true if a file that was sent under a partial name failed to move because the server
    /// has no MOVE, which is remembered, or allows none at this place: tokens that only create
    /// files do not rename them (WLCG profile, `storage.create` and `storage.modify`). Then only a
    /// new file may be written under its own name: an existing file would be replaced by
    /// unconfirmed bytes.
    pub(super) fn cannot_move(&self, error: &Error, path: &str) -> bool {
        if error.kind() == ErrorKind::Unsupported {
            self.unmoved.add(parent(path));
            self.learn(|names| names.moves = Some(false));
        }
        matches!(
            error.kind(),
            ErrorKind::Unsupported | ErrorKind::PermissionDenied | ErrorKind::NotFound
        )
    }

    /// The error of a file that can neither be moved to its name nor be put there.
    pub(super) fn refused_both_ways(error: Error) -> Error {
        let what = "it can be written neither by a rename (scope storage.modify) nor directly";
        if error.kind() == ErrorKind::PermissionDenied { error.context(what) } else { error }
    }

    /// The value of `X-OC-Mtime`: seconds since 1970, with fractions for servers that are known to
    /// keep them. None before 1970, and for a time after the year 9999, which servers refuse.
    pub(super) fn mtime(&self, modified: SystemTime) -> Option<String> {
        let since = modified.duration_since(UNIX_EPOCH).ok()?;
        match (self.names().trees, since.subsec_nanos()) {
            _ if since.as_secs() > LAST_SECOND => None,
            (Some(true), nanos @ 1..) => Some(format!("{}.{nanos:09}", since.as_secs())),
            _ => Some(since.as_secs().to_string()),
        }
    }
}

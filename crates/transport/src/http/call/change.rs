//! Changes at HTTP servers: how a client knows that one was carried out, and when it is sent again.
//!
//! A response confirms a change (PUT, MOVE, COPY, DELETE, MKCOL; POST and PATCH of the APIs for
//! tapes and lots) if only the server itself can have sent it: with the method's own status for
//! success, from the requested URL, without an HTML page. Any other success may come from a login
//! page, a proxy or a portal, or mean that the request was accepted but not yet carried out (202).
//! Where the response was lost, the request may have been carried out as well. In both cases the
//! client checks the state at the server (a *look*), and repeats nothing before that.
//!
//! [`outcome`] classifies responses for all methods, [`Seen`] is the result of a look, and
//! [`carry_out`] is the loop of both. A change is sent again only if its response was lost and the
//! look shows that it was not carried out.
//!
//! The look at a PUT decides by checksum where the server states one or the sent bytes are still
//! here. Otherwise it compares kind, tag, date and size with those of the entry from before the
//! request ([`is_same_version`]): an entry that may be the old one confirms nothing
//! (`WebDavUpload::is_what_was_sent` in `webdav/upload.rs`). A MOVE does the same with the entry at
//! the new name ([`TargetBefore`]).

use crate::context::MonotonicClock;
use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::{request, status_error};
use crate::location::Location;
use crate::network::Network;
use crate::pool::Pool;
#[cfg(feature = "s3")]
use hither_core::error::Effect;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_core::retry::{self, Failed, RetryPolicy};
use hither_core::storage::{DirEntry, FileKind, is_same_version};
use hither_http::propfind;
use http::{HeaderMap, Method, StatusCode, header};

/// The body of the 200 with which XrdHttp before 5.6 confirms a PUT or a DELETE
/// (`XrdHttpReq::PostProcessHTTPReq`).
const XRDHTTP_DONE: &[u8] = b":-)";
/// Bytes of a page in which its title is looked for.
const MAX_TITLE_BYTES: usize = 1024;

/// The outcome of a change, by its response.
#[derive(Debug)]
pub enum ChangeOutcome<T = HttpResponse> {
    /// The server has confirmed it.
    Done(T),
    /// The server refuses it.
    Refused(T),
    /// The change may have been carried out: a look at the server has to decide. Contains the error
    /// for a change that was not carried out.
    Unseen(Error),
}

impl ChangeOutcome {
    /// The response that confirms a change with `method`, which no look can confirm.
    ///
    /// # Errors
    ///
    /// The refusal of the server; the error of a change that may not have been carried out.
    pub(crate) fn confirmed(self, method: &str) -> Result<HttpResponse> {
        match self {
            Self::Done(reply) => Ok(reply),
            Self::Refused(reply) => Err(status_error::of_response(&reply, method)),
            Self::Unseen(error) => Err(error),
        }
    }
}

impl Network {
    /// Sends a request that changes something.
    ///
    /// # Errors
    ///
    /// As [`Network::call`], if the change was not carried out.
    pub async fn change(&self, call: HttpRequest) -> Result<ChangeOutcome> {
        let method = call.method.clone();
        let requested = call.location.clone();
        outcome(&method, &requested, self.call(call).await)
    }

    /// Carries out the change that `call` requests, and that `look` shows ([`carry_out`]). Returns
    /// the response of a server that refuses it.
    ///
    /// # Errors
    ///
    /// As [`carry_out`].
    pub(crate) async fn carry_out<L>(
        &self,
        call: &HttpRequest,
        look: impl Fn() -> L + Send + Sync,
    ) -> Result<Option<HttpResponse>>
    where
        L: Future<Output = Result<Seen>> + Send,
    {
        carry_out(&self.config().retry_policy(), || self.change(call.clone()), look).await
    }
}

/// Remembers XrdHttp by a response of the server that was asked, which may redirect. A proxy before
/// it replaces the field `Server`, and keeps the body.
pub(super) fn learn_xrdhttp(pool: &Pool, method: &Method, headers: &HeaderMap, body: &[u8]) {
    let is_written_by_it = body == XRDHTTP_DONE || propfind::is_of_xrdhttp(body);
    let is_file = *method == Method::GET;
    if (request::is_of_xrootd(headers) || is_written_by_it && !is_file)
        && !pool.server().names().replaces
    {
        pool.server().learn_names(|names| names.replaces = true);
    }
}

/// The outcome of a change with `method` at `requested`, by its response.
///
/// # Errors
///
/// The error of the request, if the change was not carried out.
pub(crate) fn outcome(
    method: &Method,
    requested: &Location,
    sent: Result<HttpResponse>,
) -> Result<ChangeOutcome> {
    let reply = match sent {
        Err(error) if error.may_have_been_carried_out() => {
            return Ok(ChangeOutcome::Unseen(error));
        }
        sent => sent?,
    };
    let status = reply.status;
    let is_claim = status.is_success() && status != StatusCode::MULTI_STATUS;
    if !is_claim && !status.is_redirection() {
        let error = status_error::of_response(&reply, method.as_str());
        let is_unseen = error.may_have_been_carried_out()
            && status != StatusCode::MULTI_STATUS
            && !is_of_link(&reply);
        return Ok(if is_unseen {
            ChangeOutcome::Unseen(error)
        } else {
            ChangeOutcome::Refused(reply)
        });
    }
    let is_page = is_foreign_page(&reply);
    let is_elsewhere = reply.location != *requested;
    let is_xrdhttp = status == StatusCode::OK && *reply.body == *XRDHTTP_DONE;
    if (is_success_of(method, status) || is_xrdhttp) && !is_page && !is_elsewhere {
        return Ok(ChangeOutcome::Done(reply));
    }
    Ok(ChangeOutcome::Unseen(unseen_error(method.as_str(), requested, &reply)))
}

/// The error of a change that may not have been carried out although the status is a success.
fn unseen_error(method: &str, requested: &Location, reply: &HttpResponse) -> Error {
    let page = if is_foreign_page(reply) { " and a page of HTML" } else { "" };
    let elsewhere = if reply.location == *requested {
        String::new()
    } else {
        format!(" after a redirect to {}", reply.location)
    };
    let what = format!(
        "{requested}: the server responded to {method} with {}{page}{elsewhere}, which does not \
         show that it was carried out: is a login or another URL needed?",
        status_error::shown(reply.status)
    );
    Error::new(ErrorKind::Protocol, what)
}

/// The error of a change that needs a look at the server, where a protocol other than WebDAV
/// decides whether a success is its own for this change (`is_own`).
#[cfg(feature = "s3")]
pub(crate) fn strange(requested: &Location, reply: &HttpResponse, is_own: bool) -> Option<Error> {
    let is_change = reply.effect == Effect::Change && reply.status.is_success();
    let is_unconfirmed = !is_own || reply.location != *requested || is_foreign_page(reply);
    let error = || unseen_error("the change", requested, reply).with_effect(Effect::Change);
    (is_change && is_unconfirmed).then(error)
}

/// The state of a change that a look at the server has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The change was carried out.
    Done,
    /// The change was not carried out.
    Undone,
    /// The look leaves it open.
    Unclear,
}

impl Seen {
    /// After the removal of `before`: the entry of its name `now`. An entry that another client has
    /// made since is not the removed one. Its kind, tag or date shows that; a size alone may be
    /// wrong in one of the two listings.
    pub(crate) fn removed(before: &DirEntry, now: Option<&DirEntry>) -> Self {
        let Some(now) = now else { return Self::Done };
        let unsized_entry = DirEntry { size: None, ..before.clone() };
        if is_same_version(&unsized_entry, now) == Some(false) {
            return Self::Done;
        }
        match is_same_version(before, now) {
            Some(true) => Self::Undone,
            _ => Self::Unclear,
        }
    }

    /// After `from` was moved: the entries of its name and of the new one. What another client has
    /// made under the old name since is not what was to be moved, and what was at the new name
    /// `before` may still be there: another client may have taken `from` away.
    pub(crate) fn moved(
        from: &DirEntry,
        before: TargetBefore<'_>,
        left: Option<&DirEntry>,
        there: Option<&DirEntry>,
    ) -> Self {
        let is_left = left.is_some_and(|left| is_same_version(from, left) != Some(false));
        match there {
            _ if is_left => Self::Undone,
            Some(there) if is_as_large(from, there) && before.differs(from, there) => Self::Done,
            _ => Self::Unclear,
        }
    }

    /// After a directory was made where nothing was: the entry of its name `now`.
    pub(crate) fn made(now: Option<&DirEntry>) -> Self {
        match now.map(|now| now.kind) {
            Some(FileKind::Directory) => Self::Done,
            Some(_) => Self::Unclear,
            None => Self::Undone,
        }
    }
}

/// The state of the new name before a file or directory is moved there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TargetBefore<'a> {
    /// Nothing; or only this client knows the old name, so that a missing file was moved.
    Nothing,
    /// This entry, which may be replaced.
    Entry(&'a DirEntry),
    /// Perhaps something, which may not be replaced.
    Unknown,
}

impl<'a> TargetBefore<'a> {
    /// The state that a look has shown.
    pub(crate) fn seen(entry: Option<&'a DirEntry>) -> Self {
        entry.map_or(Self::Nothing, Self::Entry)
    }

    /// Returns true if `there`, which is as large as what was to be moved (`from`), is surely not
    /// what was there before. A rename keeps the date; a directory has nothing else.
    fn differs(self, from: &DirEntry, there: &DirEntry) -> bool {
        match self {
            Self::Nothing => true,
            Self::Entry(before) => is_same_version(before, there) == Some(false),
            Self::Unknown if from.kind == FileKind::Directory => {
                from.modified.is_some() && from.modified == there.modified
            }
            Self::Unknown => is_same_version(from, there) == Some(true),
        }
    }
}

/// Returns true if both entries are of one kind, and of a size that is known and the same.
pub(crate) fn is_as_large(one: &DirEntry, other: &DirEntry) -> bool {
    one.kind == other.kind && one.size.is_some() && one.size == other.size
}

/// Returns true if the sizes of both entries are known and differ.
pub(crate) fn sizes_differ(one: &DirEntry, other: &DirEntry) -> bool {
    one.size.zip(other.size).is_some_and(|(one, other)| one != other)
}

/// Carries out a change: sends it, looks at the server where the response leaves it open, and sends
/// it again where the response was lost and the change was not carried out. Returns the response of
/// a server that refuses it.
///
/// # Errors
///
/// Those of `send` and `look`; the error of a change that may not have been carried out.
pub(crate) async fn carry_out<T: Send, S, L>(
    policy: &RetryPolicy,
    send: impl Fn() -> S + Send + Sync,
    look: impl Fn() -> L + Send + Sync,
) -> Result<Option<T>>
where
    S: Future<Output = Result<ChangeOutcome<T>>> + Send,
    L: Future<Output = Result<Seen>> + Send,
{
    let attempt = || async {
        let error = match send().await.map_err(Failed::finally)? {
            ChangeOutcome::Done(_) => return Ok(None),
            ChangeOutcome::Refused(reply) => return Ok(Some(reply)),
            ChangeOutcome::Unseen(error) => error,
        };
        let was_lost = matches!(error.failure(), Failure::Interrupted(_));
        match look().await {
            Ok(Seen::Done) => Ok(None),
            Ok(Seen::Undone) if was_lost => Err(Failed::looking(error)),
            Ok(_) => Err(Failed::finally(error)),
            Err(failed) => {
                let both = |look: String| format!("{error}; looking failed, too: {look}");
                Err(Failed::finally(failed.map_message(both)))
            }
        }
    };
    retry::run(policy, &MonotonicClock::start(), attempt).await
}

/// Returns true if `status` is the one with which a server confirms `method` (RFC 9110 sections
/// 9.3.3 to 9.3.5, RFC 5789, RFC 4918 sections 9.3.1, 9.8.5 and 9.9.4).
fn is_success_of(method: &Method, status: StatusCode) -> bool {
    match method.as_str() {
        "PUT" | "MOVE" | "COPY" => matches!(status.as_u16(), 201 | 204),
        "MKCOL" => status == StatusCode::CREATED,
        "DELETE" => status == StatusCode::NO_CONTENT,
        "POST" => matches!(status.as_u16(), 200 | 201 | 204),
        "PATCH" => matches!(status.as_u16(), 200 | 204),
        _ => false,
    }
}

/// Returns true for the response of XrdHttp to the removal of a link to a directory, which it shows
/// as the directory: with the status 500, the text of `ENOTDIR`.
pub(crate) fn is_of_link(reply: &HttpResponse) -> bool {
    reply.status.is_server_error() && reply.body.trim_ascii_end().ends_with(b"; not a directory")
}

/// Returns true for a page of HTML, unless its title is the status, as in the pages that servers
/// have for each status (Apache: "201 Created").
fn is_foreign_page(reply: &HttpResponse) -> bool {
    let kind = reply.headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    let start = reply.body.get(..MAX_TITLE_BYTES).unwrap_or(&reply.body);
    let start = String::from_utf8_lossy(start).trim_start().to_ascii_lowercase();
    let is_html = kind.to_ascii_lowercase().windows(4).any(|word| word == b"html")
        || start.starts_with("<!doctype html")
        || start.starts_with("<html");
    let title = start.split_once("<title>").map_or("", |(_, title)| title.trim_start());
    !start.is_empty() && is_html && !title.starts_with(reply.status.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hither_core::error::Effect;
    use std::time::{Duration, UNIX_EPOCH};

    fn verdict(
        method: &str,
        status: u16,
        kind: &str,
        body: &'static str,
        at: &str,
    ) -> &'static str {
        let requested = Location::parse("http://h/f").unwrap();
        let kind = kind.parse().unwrap();
        let reply = HttpResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]),
            body: Bytes::from_static(body.as_bytes()),
            location: Location::parse(at).unwrap(),
            refusal: None,
            effect: Effect::Change,
            has_waited: false,
        };
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        match outcome(&method, &requested, Ok(reply)).unwrap() {
            ChangeOutcome::Done(_) => "done",
            ChangeOutcome::Refused(_) => "refused",
            ChangeOutcome::Unseen(_) => "unseen",
        }
    }

    #[test]
    fn only_the_status_of_the_method_is_believed() {
        for (method, believed) in [
            ("PUT", &[201, 204][..]),
            ("MOVE", &[201, 204]),
            ("COPY", &[201, 204]),
            ("DELETE", &[204]),
            ("MKCOL", &[201]),
            ("POST", &[200, 201, 204]),
            ("PATCH", &[200, 204]),
        ] {
            for status in 200..600 {
                let expected = match status {
                    207 => "refused",
                    status if believed.contains(&status) => "done",
                    200..=399 => "unseen",
                    501 | 503 | 505 | 507 | 511 => "refused",
                    500.. => "unseen",
                    _ => "refused",
                };
                let seen = verdict(method, status, "text/plain", "", "http://h/f");
                assert_eq!(seen, expected, "{method} {status}");
            }
        }
    }

    #[test]
    fn a_look_shows_what_was_removed() {
        let entry = |size, seconds, validator: Option<&str>| DirEntry {
            modified: Some(UNIX_EPOCH + Duration::from_secs(seconds)),
            validator: validator.map(str::to_owned),
            ..DirEntry::new("f", FileKind::File, size)
        };
        let unsized_entry =
            |seconds, validator| DirEntry { size: None, ..entry(0, seconds, validator) };
        let unknown = DirEntry::new("f", FileKind::File, 3);
        for (before, now, expected) in [
            (entry(3, 1, None), None, Seen::Done),
            (entry(3, 1, None), Some(entry(3, 1, None)), Seen::Undone),
            (entry(3, 1, Some("\"a\"")), Some(entry(3, 1, Some("\"a\""))), Seen::Undone),
            // Another client has made a file of that name.
            (entry(3, 1, None), Some(entry(3, 2, None)), Seen::Done),
            (entry(3, 1, Some("\"a\"")), Some(entry(3, 1, Some("\"b\""))), Seen::Done),
            (entry(3, 1, None), Some(DirEntry::new("f", FileKind::Directory, 0)), Seen::Done),
            (entry(3, 1, None), Some(unknown.clone()), Seen::Unclear),
            // The size of one of the two listings is wrong, or a client was quick.
            (entry(3, 1, None), Some(entry(4, 1, None)), Seen::Unclear),
            (entry(3, 1, Some("\"a\"")), Some(entry(4, 1, Some("\"a\""))), Seen::Unclear),
            (unknown.clone(), Some(unknown), Seen::Unclear),
            (unsized_entry(1, None), Some(entry(3, 1, None)), Seen::Unclear),
            (entry(3, 1, None), Some(unsized_entry(1, None)), Seen::Unclear),
            (unsized_entry(1, None), Some(unsized_entry(1, None)), Seen::Unclear),
            (unsized_entry(1, None), Some(unsized_entry(2, None)), Seen::Done),
            (unsized_entry(1, Some("\"a\"")), Some(entry(3, 1, Some("\"a\""))), Seen::Undone),
            (unsized_entry(1, Some("\"a\"")), Some(entry(3, 1, Some("\"b\""))), Seen::Done),
        ] {
            assert_eq!(Seen::removed(&before, now.as_ref()), expected, "{before:?} {now:?}");
        }
    }

    #[test]
    fn a_look_shows_what_was_moved() {
        let of = |size| Some(DirEntry::new("f", FileKind::File, size));
        let unknown = || of(3).map(|entry| DirEntry { size: None, ..entry });
        let tagged = |tag: &str| of(3).map(|it| DirEntry { validator: Some(tag.to_owned()), ..it });
        for (from, left, there, expected) in [
            // Another client has made a file of the old name.
            (tagged("\"a\""), tagged("\"b\""), of(3), Seen::Done),
            (tagged("\"a\""), tagged("\"b\""), None, Seen::Unclear),
            (tagged("\"a\""), tagged("\"a\""), of(3), Seen::Undone),
            (of(3), of(4), of(3), Seen::Done),
            (of(3), None, of(3), Seen::Done),
            (of(3), of(3), None, Seen::Undone),
            (of(3), of(3), of(3), Seen::Undone),
            (of(3), None, of(4), Seen::Unclear),
            (of(3), None, None, Seen::Unclear),
            (unknown(), unknown(), None, Seen::Undone),
            (unknown(), None, of(3), Seen::Unclear),
            (of(3), None, unknown(), Seen::Unclear),
            (unknown(), None, unknown(), Seen::Unclear),
        ] {
            let before = TargetBefore::Nothing;
            let seen = Seen::moved(&from.unwrap(), before, left.as_ref(), there.as_ref());
            assert_eq!(seen, expected, "{left:?} {there:?}");
        }
    }

    #[test]
    fn what_was_there_before_is_not_what_was_moved() {
        let of = |kind, seconds: Option<u64>, tag: Option<&str>| DirEntry {
            modified: seconds.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)),
            validator: tag.map(str::to_owned),
            ..DirEntry::new("f", kind, 0)
        };
        let file = |seconds, tag| of(FileKind::File, seconds, tag);
        let directory = |seconds| of(FileKind::Directory, seconds, None);
        let from = file(Some(1), Some("\"a\""));
        let old = file(Some(2), Some("\"b\""));
        let undated = file(None, None);
        let longer = DirEntry { size: Some(9), ..old.clone() };
        let seen = TargetBefore::Entry;
        for (from, before, there, expected) in [
            (&from, seen(&old), &from, Seen::Done),
            (&from, seen(&old), &old, Seen::Unclear),
            (&from, seen(&file(Some(2), None)), &file(Some(1), None), Seen::Done),
            (&from, seen(&file(Some(2), None)), &file(Some(2), None), Seen::Unclear),
            (&from, seen(&undated), &undated, Seen::Unclear),
            (&from, seen(&longer), &undated, Seen::Done),
            (&from, TargetBefore::Unknown, &from, Seen::Done),
            (&from, TargetBefore::Unknown, &old, Seen::Unclear),
            (&from, TargetBefore::Unknown, &undated, Seen::Unclear),
            (&directory(Some(1)), TargetBefore::Unknown, &directory(Some(1)), Seen::Done),
            (&directory(Some(1)), TargetBefore::Unknown, &directory(Some(2)), Seen::Unclear),
            (&directory(None), TargetBefore::Unknown, &directory(None), Seen::Unclear),
            (&directory(Some(1)), TargetBefore::Nothing, &directory(Some(2)), Seen::Done),
        ] {
            let shown = Seen::moved(from, before, None, Some(there));
            assert_eq!(shown, expected, "{from:?} {before:?} {there:?}");
        }
    }

    #[test]
    fn the_word_of_xrdhttp_is_believed() {
        for (status, body, expected) in
            [(200, ":-)", "done"), (202, ":-)", "unseen"), (200, ":-) ", "unseen")]
        {
            assert_eq!(verdict("PUT", status, "", body, "http://h/f"), expected, "{status} {body}");
        }
    }

    #[test]
    fn pages_and_other_places_are_not_believed() {
        let login = "<html><title>Sign in</title></html>";
        let created =
            "<!DOCTYPE HTML PUBLIC \"-//IETF\">\n<html><head>\n<title>201 Created</title>";
        for (kind, body, at, expected) in [
            ("text/plain", "made", "http://h/f", "done"),
            ("text/html", "", "http://h/f", "done"),
            ("text/html; charset=iso-8859-1", created, "http://h/f", "done"),
            ("text/html", login, "http://h/f", "unseen"),
            ("text/plain", login, "http://h/f", "unseen"),
            ("application/xhtml+xml", "<?xml?>", "http://h/f", "unseen"),
            ("text/plain", "made", "http://h/login", "unseen"),
            ("text/plain", "made", "http://pool/f", "unseen"),
        ] {
            assert_eq!(verdict("PUT", 201, kind, body, at), expected, "{kind} {body} {at}");
        }
    }
}

//! The version of a file to be copied: from its listing, or from a response of the server.

use crate::file::blocks::piece_buffer::{PieceBuffer, WriteBatch};
use crate::file::item::CopyItem;
use crate::file::source::Replicas;
use crate::file::version::FileVersion;
use crate::journal::Known;
use hither_core::source::link::INITIAL_REQUEST_BYTES;
use hither_core::storage::is_page;
use hither_core::{
    DirEntry, Error, ErrorKind, FileKind, Request, ResponseMeta, Result, RetryPolicy, Source,
    Storage, retry,
};
use std::sync::Arc;

/// The version of the source, and its first bytes if they had to be requested.
pub(crate) async fn identify(
    policy: &RetryPolicy,
    item: &CopyItem,
    replicas: &Replicas,
    known: Option<&Known>,
) -> Result<(FileVersion, Option<WriteBatch>)> {
    let source = replicas.source();
    match &item.entry {
        Some(entry) if is_described(entry, item) => {
            let listed = FileVersion::of(entry);
            if known.is_some_and(|known| known.version.is_more_specific_than(&listed)) {
                return Ok((of_silent_listing(item, source, listed).await, None));
            }
            Ok((listed, None))
        }
        None if item.local.is_some() => {
            Ok((of_file(item.storage.stat(&item.path).await?, item)?, None))
        }
        Some(entry) => {
            let listed = FileVersion::of(entry);
            let refuses = item.refuses_pages();
            let (version, head) = probe(source, policy, refuses, INITIAL_REQUEST_BYTES).await?;
            let validator = version.validator.or(listed.validator);
            Ok((FileVersion { size: version.size, validator, ..listed }, head))
        }
        None => match probe_unlisted(item, source, policy).await {
            // A page about a directory has no validator, as most servers send it.
            Ok((version, head)) if version.validator.is_none() => {
                // If another replica has sent the file, this server is not waited for.
                let would_wait = replicas.all().is_some_and(|all| all.first_would_wait());
                if !would_wait && let Ok(entry) = item.storage.stat(&item.path).await {
                    let stated = entry.size;
                    of_file(entry, item)?;
                    check_stated(item, version.size, stated)?;
                }
                Ok((version, head))
            }
            Err(error) if error.may_be_directory() => {
                let Ok(entry) = item.storage.stat(&item.path).await else { return Err(error) };
                let version = of_file(entry, item)?;
                // The file may be readable without this request. No byte of one that is stated to
                // be empty was to be had, which does not show that.
                if version.size.is_some_and(|size| size > 0) {
                    Ok((version, None))
                } else {
                    Err(error)
                }
            }
            result => result,
        },
    }
}

/// Returns true if the size of an entry is reliable. Servers with generated listings state 0
/// where they do not know the size: so the first bytes of a file that is listed as empty are
/// requested.
fn is_described(entry: &DirEntry, item: &CopyItem) -> bool {
    entry.size.is_some_and(|size| size > 0 || item.local.is_some())
}

/// The size that a response with the first byte of a file on a server shows. For a file that is
/// listed as empty, which may be wrong.
pub(crate) async fn size_by_response(
    policy: &RetryPolicy,
    storage: &dyn Storage,
    path: &str,
) -> Result<Option<u64>> {
    Ok(probe(&storage.source(path)?, policy, !is_page(path), 1).await?.0.size)
}

pub(crate) fn unknown_size(name: &str) -> Error {
    let what = format!("{name}: the server does not state the size of the file");
    Error::new(ErrorKind::Protocol, what)
}

/// The present version of a file whose listing states only the size. An earlier attempt has copied
/// a part of it, which need not be sent again if the version is the same.
async fn of_silent_listing(
    item: &CopyItem,
    source: &Arc<dyn Source>,
    listed: FileVersion,
) -> FileVersion {
    let Ok(entry) = item.storage.stat(&item.path).await else { return listed };
    let mut version = FileVersion { size: listed.size, ..FileVersion::of(&entry) };
    if entry.size == listed.size
        && let Some(validator) = &version.validator
    {
        version.replicas.insert(source.name(), validator.clone());
    }
    version
}

pub(crate) fn of_file(entry: DirEntry, item: &CopyItem) -> Result<FileVersion> {
    match entry.kind {
        FileKind::File | FileKind::Link => Ok(FileVersion::of(&entry)),
        FileKind::Other | FileKind::Unnamed => Err(Error::new(
            ErrorKind::Invalid,
            format!("{} is neither a file nor a directory", item.name),
        )),
        FileKind::Directory => Err(Error::new(
            ErrorKind::Invalid,
            format!("{} is a directory: copy it with -r", item.name),
        )),
    }
}

/// As [`probe`], for a file that was not listed. A response that is labelled as HTML and begins as
/// HTML, for a name that is not one of a page, is a page in place of the file: a login page, or one
/// about the file. Scripts that send data often leave the label at HTML, so the label alone proves
/// nothing.
async fn probe_unlisted(
    item: &CopyItem,
    source: &Arc<dyn Source>,
    policy: &RetryPolicy,
) -> Result<(FileVersion, Option<WriteBatch>)> {
    let bytes = INITIAL_REQUEST_BYTES;
    let refused = match probe(source, policy, item.is_named_as_data(), bytes).await {
        Err(error) if item.is_named_as_data() && error.kind() == ErrorKind::Protocol => error,
        done => return done,
    };
    let (version, head) = probe(source, policy, false, bytes).await?;
    match &head {
        Some(head) if is_html(&head.joined()) => Err(refused),
        _ => Ok((version, head)),
    }
}

/// Returns true if a file begins as a page of HTML does.
fn is_html(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    let begins = |with: &str| {
        let start = text.get(..with.len()).unwrap_or_default();
        start.eq_ignore_ascii_case(with.as_bytes())
    };
    ["<!doctype html", "<html", "<head", "<!--"].into_iter().any(begins)
}

async fn probe(
    source: &Arc<dyn Source>,
    policy: &RetryPolicy,
    refuses_pages: bool,
    bytes: u64,
) -> Result<(FileVersion, Option<WriteBatch>)> {
    let first = 0..bytes;
    let request = Request { ranges: vec![first], refuses_pages, ..Request::default() };
    // Files that are named one by one are usually large. On a long path a small one costs unneeded
    // handshakes; a large one would cost two more round trips: one to learn that it is large, one
    // to open the connections of the workers.
    if bytes > 1 {
        source.expect_bulk();
    }
    let attempt = || async {
        // The bytes of a failed attempt may be of another replica.
        let buffer = Arc::new(PieceBuffer::new(0..u64::MAX));
        let into = Arc::clone(&buffer);
        let sink = Box::new(move |part| {
            into.accept(&part, true);
        });
        let response = source.fetch(request.clone(), sink).await?;
        if response.size.is_some() {
            return Ok((response, buffer));
        }
        // The end of a file of unknown size is searched for.
        let end = Request { ranges: Vec::new(), tail: 1, ..request.clone() };
        let at_end = source.fetch(end, Box::new(drop)).await?;
        Ok((ResponseMeta { size: at_end.size, ..response }, buffer))
    };
    let (response, buffer) = retry::run(policy, source.clock(), attempt).await?;
    let size = response.size.ok_or_else(|| unknown_size(&source.name()))?;
    let size = Some(size);
    let version = FileVersion { size, validator: response.validator, ..FileVersion::default() };
    Ok((version, buffer.take(1, false)))
}

/// Fails if a response `ended` after another number of bytes than the server has `stated`
/// elsewhere: it may be a login page. A stated size of 0 is ignored.
fn check_stated(item: &CopyItem, ended: Option<u64>, stated: Option<u64>) -> Result<()> {
    match (ended, stated.filter(|stated| *stated > 0)) {
        (Some(ended), Some(stated)) if ended != stated => {
            let what = format!(
                "{}: the response ended after {ended} bytes, but the server states {stated}",
                item.name
            );
            Err(Error::new(ErrorKind::Protocol, what))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

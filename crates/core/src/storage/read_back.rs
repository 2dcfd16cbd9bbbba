//! Reading back of written bytes.

use super::is_page;
use crate::error::{Error, ErrorKind, Result};
use crate::retry::{self, Failed};
use crate::sync::lock;
use crate::{Request, RetryPolicy, Source, Storage};
use hither_checksum::{Algorithm, Checksum, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Bytes that are requested, and held, at a time.
const PIECE_BYTES: u64 = 8 << 20;

/// The checksum of the bytes in `range`, as they are read from `source`.
///
/// # Errors
///
/// The errors of the source; [`ErrorKind::Protocol`] if it sends less.
pub async fn read_back(
    source: &dyn Source,
    range: Range<u64>,
    algorithm: Algorithm,
    policy: &RetryPolicy,
) -> Result<Checksum> {
    let mut hasher = Hasher::new(algorithm);
    let mut at = range.start;
    while at < range.end {
        let piece = at..range.end.min(at.saturating_add(PIECE_BYTES));
        at = piece.end;
        let attempt = || async { fetch(source, piece.clone()).await.map_err(Failed::from) };
        hasher.update(&retry::run(policy, source.clock(), attempt).await?);
    }
    Ok(hasher.finish())
}

/// Compares a file that was written with the checksum of its bytes, because the storage may have
/// lost some that it had confirmed: with the checksum that the storage states, else with that of
/// what is read back.
///
/// # Errors
///
/// [`ErrorKind::Corrupt`] if it has lost some; those of [`read_back`].
pub async fn check_written(
    storage: &dyn Storage,
    path: &str,
    size: u64,
    expected: &Checksum,
    policy: &RetryPolicy,
) -> Result<()> {
    let stated = storage.checksum(path, expected.algorithm()).await;
    let seen = match stated.ok().flatten() {
        Some(stated) => stated,
        None => {
            let source = storage.source(path)?;
            read_back(&*source, 0..size, expected.algorithm(), policy).await?
        }
    };
    if seen == *expected {
        return Ok(());
    }
    let name = storage.name();
    let what = format!(
        "{}/{path}: the server has {seen}, expected {expected}: it has lost bytes that it had \
         confirmed, write the file again",
        name.trim_end_matches('/')
    );
    Err(Error::new(ErrorKind::Corrupt, what))
}

/// The bytes in `range`, which arrive in any order.
async fn fetch(source: &dyn Source, range: Range<u64>) -> Result<Vec<u8>> {
    let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or_default();
    let buffer = Arc::new(Mutex::new((vec![0; length], 0)));
    let into = Arc::clone(&buffer);
    let start = range.start;
    let sink = Box::new(move |part: crate::Part| {
        let (bytes, arrived) = &mut *lock(&into);
        let at = part.offset.checked_sub(start).and_then(|at| usize::try_from(at).ok());
        let place = at.and_then(|at| bytes.get_mut(at..at.checked_add(part.bytes.len())?));
        if let Some(place) = place {
            place.copy_from_slice(&part.bytes);
            *arrived += part.bytes.len();
        }
    });
    // A login page shows nothing about the file.
    let refuses_pages = !is_page(&source.name());
    let request = Request { ranges: vec![range], refuses_pages, ..Request::default() };
    source.fetch(request, sink).await?;
    let (bytes, arrived) = std::mem::take(&mut *lock(&buffer));
    if arrived < length {
        let name = source.name();
        let what = format!("{name}: {arrived} of {length} bytes came when it was read back");
        return Err(Error::new(ErrorKind::Protocol, what));
    }
    Ok(bytes)
}

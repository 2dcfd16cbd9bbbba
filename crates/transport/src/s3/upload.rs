//! An upload into a bucket.

use super::S3Storage;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use hither_core::checksum::Checksum;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, FileKind, PutOptions, Upload};
use hither_core::sync::lock;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

/// The minimum size of a part is 5 MiB (S3, "Multipart upload limits").
const PART_BYTES: u64 = 5 << 20;
/// The maximum number of parts (same place).
const MAX_PARTS: u64 = 10_000;
const PARALLEL: usize = 16;

/// A file that is being written into a bucket.
#[derive(Debug)]
pub(super) struct S3Upload {
    s3: S3Storage,
    path: String,
    key: Path,
    size: u64,
    overwrite: bool,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Together(Mutex<BytesMut>),
    Parts { id: String, part_bytes: u64, done: Mutex<BTreeMap<u64, String>> },
}

impl S3Upload {
    pub(super) async fn start(
        s3: S3Storage,
        path: &str,
        key: Path,
        options: PutOptions,
    ) -> Result<Self> {
        let size = options.size;
        let overwrite = options.overwrite;
        if !overwrite && s3.file(path).await?.is_some() {
            return Err(s3.exists(path));
        }
        let way = if size <= PART_BYTES {
            Way::Together(Mutex::default())
        } else if let Some(way) = options.resume.as_deref().and_then(|token| parse(token, size)) {
            way
        } else {
            let id = s3.store.create_multipart(&key).await.map_err(|e| s3.failed(path, e))?;
            let part_bytes = size.div_ceil(MAX_PARTS).next_multiple_of(1 << 20).max(PART_BYTES);
            Way::Parts { id, part_bytes, done: Mutex::default() }
        };
        Ok(Self { s3, path: path.to_owned(), key, size, overwrite, way })
    }

    async fn write_part(&self, offset: u64, bytes: Bytes) -> Result<()> {
        let Way::Parts { id, part_bytes, done } = &self.way else { return Ok(()) };
        let len = bytes.len() as u64;
        let expected = self.size.saturating_sub(offset).min(*part_bytes);
        if !offset.is_multiple_of(*part_bytes) || len != expected {
            let what = format!(
                "{len} bytes at {offset} are not a part: expected multiples of {part_bytes}"
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let number = offset / part_bytes;
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let put = self.s3.store.put_part(&self.key, id, index, PutPayload::from(bytes)).await;
        let part = put.map_err(|error| self.s3.failed(&self.path, error))?;
        lock(done).insert(number, part.content_id);
        Ok(())
    }

    async fn finish(self) -> Result<DirEntry> {
        // Not every store supports conditions. Another client may create the file in between.
        if !self.overwrite && self.s3.file(&self.path).await?.is_some() {
            let exists = self.s3.exists(&self.path);
            // The existing file is the error to report.
            drop(self.give_up().await);
            return Err(exists);
        }
        let stored = match &self.way {
            Way::Together(buffer) => {
                let bytes = lock(buffer).clone().freeze();
                self.check_whole(bytes.len() as u64)?;
                self.s3.store.put(&self.key, PutPayload::from(bytes)).await
            }
            Way::Parts { id, part_bytes, done } => {
                let parts: Vec<_> = lock(done).values().cloned().collect();
                self.check_whole((parts.len() as u64 * part_bytes).min(self.size))?;
                let parts = parts.into_iter().map(|content_id| PartId { content_id }).collect();
                self.s3.store.complete_multipart(&self.key, id, parts).await
            }
        };
        let stored = stored.map_err(|error| self.s3.failed(&self.path, error))?;
        let path = self.path;
        let size = Some(self.size);
        let kind = FileKind::File;
        Ok(DirEntry { path, kind, size, modified: None, validator: stored.e_tag })
    }

    fn check_whole(&self, there: u64) -> Result<()> {
        if there == self.size {
            return Ok(());
        }
        let what = format!("{}: {there} of {} bytes were written", self.path, self.size);
        Err(Error::new(ErrorKind::Invalid, what))
    }

    async fn give_up(&self) -> Result<()> {
        let Way::Parts { id, .. } = &self.way else { return Ok(()) };
        let given_up = self.s3.store.abort_multipart(&self.key, id).await;
        given_up.map_err(|error| self.s3.failed(&self.path, error))
    }
}

#[async_trait]
impl Upload for S3Upload {
    fn parallel(&self) -> usize {
        match self.way {
            Way::Together(_) => 1,
            Way::Parts { .. } => PARALLEL,
        }
    }

    fn block_bytes(&self) -> u64 {
        match self.way {
            Way::Together(_) => 1,
            Way::Parts { part_bytes, .. } => part_bytes,
        }
    }

    fn present(&self) -> Vec<Range<u64>> {
        let Way::Parts { part_bytes, done, .. } = &self.way else { return Vec::new() };
        let part = |number: &u64| {
            let start = number * part_bytes;
            start..(start + part_bytes).min(self.size)
        };
        lock(done).keys().map(part).collect()
    }

    fn token(&self) -> Option<String> {
        let Way::Parts { id, part_bytes, done } = &self.way else { return None };
        let mut token = format!("{part_bytes} {id}");
        for (number, tag) in lock(done).iter() {
            token.push_str(&format!("\n{number} {tag}"));
        }
        Some(token)
    }

    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()> {
        match &self.way {
            Way::Parts { .. } => self.write_part(offset, bytes).await,
            Way::Together(buffer) => {
                let mut buffer = lock(buffer);
                let end = offset.checked_add(bytes.len() as u64);
                if buffer.len() as u64 != offset || end.is_none_or(|end| end > self.size) {
                    let what =
                        format!("bytes at {offset} instead of {}, of {}", buffer.len(), self.size);
                    return Err(Error::new(ErrorKind::Invalid, what));
                }
                buffer.extend_from_slice(&bytes);
                Ok(())
            }
        }
    }

    async fn commit(self: Box<Self>, _: Option<Checksum>) -> Result<DirEntry> {
        self.finish().await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.give_up().await
    }
}

/// Parses the value of [`Upload::token`], if it fits a file of this size.
fn parse(token: &str, size: u64) -> Option<Way> {
    let mut lines = token.lines();
    let (part_bytes, id) = lines.next()?.split_once(' ')?;
    let part_bytes = part_bytes.parse().ok().filter(|&bytes: &u64| bytes >= PART_BYTES)?;
    let parts = size.div_ceil(part_bytes);
    let mut done = BTreeMap::new();
    for line in lines {
        let (number, tag) = line.split_once(' ')?;
        let number = number.parse().ok().filter(|&number: &u64| number < parts)?;
        done.insert(number, tag.to_owned());
    }
    Some(Way::Parts { id: id.to_owned(), part_bytes, done: Mutex::new(done) })
}

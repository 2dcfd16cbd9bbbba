//! An upload into a bucket.

mod resumed;

use super::S3Storage;
use crate::http::call::change::{ChangeOutcome, Seen, carry_out};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{
    CommittedFile, DirEntry, FileKind, PutOptions, Storage, Upload, changed_since_read, read_back,
};
use hither_core::sync::lock;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};
use resumed::resumed;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

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
    /// The only version that may be replaced.
    expected: Option<DirEntry>,
    /// The object is read back to be compared with a checksum.
    is_read_back: bool,
    /// The caller checks the object later, together with others.
    is_looked_at: bool,
    method: UploadMethod,
    /// The store has no such upload any more, and it cannot be resumed.
    is_gone: AtomicBool,
}

#[derive(Debug)]
enum UploadMethod {
    Together(Mutex<BytesMut>),
    Parts { id: String, part_bytes: u64, done: Mutex<BTreeMap<u64, String>> },
}

impl UploadMethod {
    /// The expected tag of the object, as computed by stores that do not encrypt with keys of their
    /// own: the MD5 of the bytes; for parts, the MD5 of their MD5s and their number (S3, "Checking
    /// object integrity").
    fn tag(&self) -> Option<String> {
        match self {
            Self::Together(buffer) => Some(Hasher::of(Algorithm::Md5, &lock(buffer)).hex()),
            Self::Parts { done, .. } => {
                let done = lock(done);
                let mut whole = Hasher::new(Algorithm::Md5);
                for tag in done.values() {
                    let part = Checksum::from_hex(Algorithm::Md5, tag.trim_matches('"')).ok()?;
                    whole.update(part.value());
                }
                Some(format!("{}-{}", whole.finish().hex(), done.len()))
            }
        }
    }
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
        let expected = options.expected.clone();
        if !overwrite || expected.is_some() {
            s3.check_target(path, overwrite, expected.as_ref()).await?;
        }
        let method = if size <= PART_BYTES {
            UploadMethod::Together(Mutex::default())
        } else if let Some(method) = resumed(&s3, path, &key, &options).await? {
            method
        } else {
            let id = s3.store.create_multipart(&key).await.map_err(|e| s3.failed(path, e))?;
            let part_bytes = size.div_ceil(MAX_PARTS).next_multiple_of(1 << 20).max(PART_BYTES);
            UploadMethod::Parts { id, part_bytes, done: Mutex::default() }
        };
        let PutOptions { read_back: is_read_back, is_looked_at, .. } = options;
        let path = path.to_owned();
        let is_gone = AtomicBool::new(false);
        Ok(Self {
            s3,
            path,
            key,
            size,
            overwrite,
            expected,
            is_read_back,
            is_looked_at,
            method,
            is_gone,
        })
    }

    async fn write_part(&self, offset: u64, bytes: Bytes) -> Result<()> {
        let UploadMethod::Parts { id, part_bytes, done } = &self.method else { return Ok(()) };
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
        let part = put.map_err(|error| self.part_failed(error))?;
        lock(done).insert(number, part.content_id);
        Ok(())
    }

    /// The error of a part, or of the parts together.
    fn part_failed(&self, error: object_store::Error) -> Error {
        let error = self.s3.failed(&self.path, error);
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        self.is_gone.store(true, Ordering::Relaxed);
        let name = self.s3.shown(&self.path);
        let what = format!(
            "{name}: the object store does not have this upload any more: a program or a rule of \
             the bucket has aborted it; the next attempt begins anew"
        );
        Error::new(ErrorKind::NotFound, what).with_source(error)
    }

    async fn finish(self, checksum: Option<Checksum>) -> Result<CommittedFile> {
        // Not every store supports conditions, and a multipart upload has none.
        let before = match self.look_before().await {
            Ok(before) => before,
            Err(error) => {
                // The existing object is the error to report.
                drop(self.give_up().await);
                return Err(error);
            }
        };
        let tag = Mutex::new(None);
        let send = || async {
            match self.store().await {
                Ok(stored) => {
                    *lock(&tag) = stored;
                    Ok(ChangeOutcome::Done(()))
                }
                Err(error) if error.may_have_been_carried_out() => Ok(ChangeOutcome::Unseen(error)),
                Err(error) => Err(error),
            }
        };
        let look = || async {
            let there = self.s3.file(&self.path).await?;
            let is_ours = |meta: &ObjectMeta| meta.size == self.size && self.is_tag(&meta.e_tag);
            Ok(match &there {
                None => Seen::Undone,
                Some(there) if is_ours(there) => Seen::Done,
                // It may be the object of another client, or this one with a tag of another kind.
                Some(_) => Seen::Unclear,
            })
        };
        carry_out(&self.s3.network.config().retry_policy(), send, look).await?;
        let validator = tag.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The tag can be computed only from the bytes.
        let has_bytes = self.is_tag(&validator) && matches!(self.method, UploadMethod::Together(_));
        let is_seen = !(has_bytes && self.is_looked_at);
        if is_seen {
            match self.check_stored(&validator, before.as_ref()).await {
                // A user who may write may not always read.
                Err(error) if has_bytes && error.kind() == ErrorKind::PermissionDenied => {}
                checked => checked?,
            }
        }
        let is_compared = match &checksum {
            Some(expected) if self.is_read_back => self.compare(expected).await?,
            _ => false,
        };
        let entry = DirEntry { validator, ..DirEntry::new(self.path, FileKind::File, self.size) };
        Ok(CommittedFile { is_compared, is_seen, ..entry.into() })
    }

    /// Creates the object, and returns its entity tag.
    async fn store(&self) -> Result<Option<String>> {
        let stored = match &self.method {
            UploadMethod::Together(buffer) => {
                let bytes = PutPayload::from(lock(buffer).clone().freeze());
                self.check_whole(bytes.content_length() as u64)?;
                let mode = self.mode();
                let is_conditional = mode != PutMode::Overwrite;
                let put = self.s3.store.put_opts(&self.key, bytes.clone(), mode.into()).await;
                match put {
                    Err(error) if is_conditional => match self.s3.failed(&self.path, error) {
                        error if error.kind() == ErrorKind::AlreadyExists => {
                            return Err(self.in_the_way());
                        }
                        // This store has no conditions: the check before the request has to
                        // suffice.
                        error if error.kind() == ErrorKind::Unsupported => {
                            self.s3.store.put(&self.key, bytes).await
                        }
                        error => return Err(error),
                    },
                    put => put,
                }
            }
            UploadMethod::Parts { id, part_bytes, done } => {
                let parts: Vec<_> = lock(done).values().cloned().collect();
                self.check_whole((parts.len() as u64 * part_bytes).min(self.size))?;
                let parts = parts.into_iter().map(|content_id| PartId { content_id }).collect();
                let whole = self.s3.store.complete_multipart(&self.key, id, parts).await;
                return whole.map(|it| it.e_tag).map_err(|error| self.part_failed(error));
            }
        };
        stored.map(|stored| stored.e_tag).map_err(|error| self.s3.failed(&self.path, error))
    }

    /// The condition of a PUT.
    fn mode(&self) -> PutMode {
        let tag = self.expected.as_ref().and_then(|expected| expected.validator.clone());
        match tag {
            Some(tag) => PutMode::Update(UpdateVersion { e_tag: Some(tag), version: None }),
            None if self.overwrite => PutMode::Overwrite,
            None => PutMode::Create,
        }
    }

    /// The error of an object that may not be replaced.
    fn in_the_way(&self) -> Error {
        match &self.expected {
            Some(_) => changed_since_read(self.s3.shown(&self.path), ""),
            None => self.s3.exists(&self.path),
        }
    }

    /// Returns true if an object with this tag has the sent bytes.
    fn is_tag(&self, tag: &Option<String>) -> bool {
        let tag = tag.as_deref().map(|tag| tag.trim_matches('"'));
        tag.is_some() && tag == self.method.tag().as_deref()
    }

    /// The object that will be replaced, where it has to be checked; fails if it may not be
    /// replaced. A whole object is compared by its bytes.
    async fn look_before(&self) -> Result<Option<ObjectMeta>> {
        if self.overwrite
            && self.expected.is_none()
            && matches!(self.method, UploadMethod::Together(_))
        {
            return Ok(None);
        }
        self.s3.check_target(&self.path, self.overwrite, self.expected.as_ref()).await
    }

    /// Fails unless the store shows the sent object, to which it has given this tag.
    async fn check_stored(&self, tag: &Option<String>, before: Option<&ObjectMeta>) -> Result<()> {
        let Some(there) = self.s3.file(&self.path).await? else {
            return Err(self.s3.unseen(&self.path, "nothing"));
        };
        if there.size != self.size {
            let name = self.s3.shown(&self.path);
            let what = format!(
                "{name} has {} bytes in the object store, expected {}",
                there.size, self.size
            );
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        if self.is_tag(&there.e_tag) || tag.is_some() && there.e_tag == *tag {
            return Ok(());
        }
        // Not every store sends the same tag for the same object.
        let is_it = match &self.method {
            UploadMethod::Together(buffer) => {
                let sent = Hasher::of(Algorithm::Md5, &lock(buffer));
                self.read_back(Algorithm::Md5).await? == sent
            }
            UploadMethod::Parts { .. } => before != Some(&there),
        };
        if is_it { Ok(()) } else { Err(self.s3.unseen(&self.path, "another object")) }
    }

    async fn read_back(&self, algorithm: Algorithm) -> Result<Checksum> {
        let source = self.s3.source(&self.path)?;
        let policy = self.s3.network.config().retry_policy();
        read_back(&*source, 0..self.size, algorithm, &policy).await
    }

    /// Reads the object back, and compares it with a checksum.
    async fn compare(&self, expected: &Checksum) -> Result<bool> {
        let seen = self.read_back(expected.algorithm()).await?;
        if seen == *expected {
            return Ok(true);
        }
        let name = self.s3.shown(&self.path);
        let what = format!("{name}: the object store has {seen}, expected {expected}");
        Err(Error::new(ErrorKind::Corrupt, what))
    }

    fn check_whole(&self, there: u64) -> Result<()> {
        if there == self.size {
            return Ok(());
        }
        let what = format!("{}: {there} of {} bytes were written", self.path, self.size);
        Err(Error::new(ErrorKind::Invalid, what))
    }

    async fn give_up(&self) -> Result<()> {
        let UploadMethod::Parts { id, .. } = &self.method else { return Ok(()) };
        let given_up = self.s3.store.abort_multipart(&self.key, id).await;
        given_up.map_err(|error| self.s3.failed(&self.path, error))
    }
}

#[async_trait]
impl Upload for S3Upload {
    fn parallel(&self) -> usize {
        match self.method {
            UploadMethod::Together(_) => 1,
            UploadMethod::Parts { .. } => PARALLEL,
        }
    }

    fn block_bytes(&self) -> u64 {
        match self.method {
            UploadMethod::Together(_) => 1,
            UploadMethod::Parts { part_bytes, .. } => part_bytes,
        }
    }

    fn present(&self) -> Vec<Range<u64>> {
        let UploadMethod::Parts { part_bytes, done, .. } = &self.method else { return Vec::new() };
        let part = |number: &u64| {
            let start = number * part_bytes;
            start..(start + part_bytes).min(self.size)
        };
        lock(done).keys().map(part).collect()
    }

    fn token(&self) -> Option<String> {
        let UploadMethod::Parts { id, part_bytes, done } = &self.method else { return None };
        if self.is_gone.load(Ordering::Relaxed) {
            return None;
        }
        let mut token = format!("{part_bytes} {id}");
        for (number, tag) in lock(done).iter() {
            token.push_str(&format!("\n{number} {tag}"));
        }
        Some(token)
    }

    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()> {
        match &self.method {
            UploadMethod::Parts { .. } => self.write_part(offset, bytes).await,
            UploadMethod::Together(buffer) => {
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

    /// The store compares the tags of all parts when the upload is completed. Before, [`resumed`]
    /// asks for those of the token.
    fn resumes_verified(&self) -> bool {
        true
    }

    async fn commit(self: Box<Self>, checksum: Option<Checksum>) -> Result<CommittedFile> {
        self.finish(checksum).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.give_up().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_parts_has_a_tag_of_its_own() {
        let parts = |tags: &[&str]| {
            let numbered = (0..).zip(tags.iter().map(|&tag| tag.to_owned()));
            UploadMethod::Parts {
                id: "u".to_owned(),
                part_bytes: 1,
                done: Mutex::new(numbered.collect()),
            }
        };
        // The MD5 of "a" and of "b".
        let (a, b) = ("0cc175b9c0f1b6a831c399e269772661", "\"92eb5ffee6ae2fec3ad71c777531578f\"");
        let tag = parts(&[a, b]).tag();
        assert_eq!(tag.as_deref(), Some("96e024ba2074fe77e8e965ba43a704be-2"));
        // An object of as many parts with other bytes is another one.
        assert_ne!(parts(&[a, a]).tag(), tag);
        // Tags that are not an MD5 prove nothing.
        assert_eq!(parts(&[a, "of-its-own"]).tag(), None);
        let together = UploadMethod::Together(Mutex::new(BytesMut::from(&b"a"[..])));
        assert_eq!(together.tag().as_deref(), Some(a));
    }
}

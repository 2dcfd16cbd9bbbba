//! Files as bytes: for programs that read here and there.
//!
//! A remote file is read through the client's cache ([`hither_core::cache`]), in which all files that the client has open
//! under the same name and identity share their bytes. A local file is read directly: its cache is the system's.

use crate::client::{Client, ClientContext};
use crate::file::disk_cache::DiskCacheSource;
use crate::file::{RemoteFile, SMALL_BYTES};
use crate::open_ahead::gate::{GatedPrefetcher, ReadAheadGate};
use crate::open_ahead::prefetched::PrefetchedEnds;
use crate::tree_cache::LazyTreeOpener;
use bytes::Bytes;
use futures_util::future::FutureExt;
use hither_core::cache::Version;
use hither_core::cache::file::{HintId, ReadStart, Spawn};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{CacheKey, CachedFile, ReadAhead, Source, range};
use hither_store::FileMetadata;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, SystemTime};

/// Larger reads go by ranges, which may go past the cache and are checked against the size of the file first.
const LARGE_BYTES: u64 = 8 << 20;

/// The way of reads to the bytes.
#[derive(Debug, Clone)]
pub(crate) enum ReadPath {
    /// Through the cache.
    Cached(Arc<CachedReads>),
    /// Not so; the size of the file, once it is known.
    Direct(Arc<OnceLock<u64>>),
}

/// A file that is read through the cache, once it is read.
#[derive(Debug, Default)]
pub(crate) struct CachedReads {
    file: OnceLock<CachedFile>,
    /// Before the server, if parts of files are kept on disk.
    tiered: OnceLock<Arc<DiskCacheSource>>,
    /// What was fetched when it was opened ahead has been taken over, if there was anything.
    settled: OnceLock<Option<Arc<PrefetchedEnds>>>,
    /// Opens the trees in the file, if it has any.
    trees: OnceLock<LazyTreeOpener>,
    /// First reads that tell nothing.
    glances: ReadAheadGate,
    /// The next answer confirms what the store has of it.
    expects: AtomicBool,
    /// The program names what it reads: the layout of trees foretells nothing that it would not say itself.
    is_told: bool,
}

impl RemoteFile {
    /// Reads as many bytes as `target` holds, from `offset` on; fewer at the end of the file, none beyond it. Returns how
    /// many. What is in the client's memory takes less than a microsecond.
    ///
    /// All reads of an open file are of one version of it; see `docs/semantics.md`.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::stat`]; [`ErrorKind::Changed`] if the file has changed since it was first read.
    pub fn read_at(&self, client: &Client, offset: u64, target: &mut [u8]) -> Result<usize> {
        let mut read = pin!(self.read_at_async(offset, target));
        // What is there needs no runtime.
        if self.is_settled()
            && let Some(done) = read.as_mut().now_or_never()
        {
            return done;
        }
        client.wait(read)
    }

    /// The same, for who waits in another way. Runs on the client's runtime.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_at`].
    pub async fn read_at_async(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        let Some(cached) = self.settled().await? else {
            return self.read_direct(offset, target).await;
        };
        let end = offset.saturating_add(target.len() as u64);
        self.note_reads(std::slice::from_ref(&(offset..end)));
        let read = match cached.begin(offset, target) {
            Ok(ReadStart::Done(bytes)) => return Ok(bytes),
            Ok(ReadStart::Waiting(pending)) => {
                self.waits(offset, 1);
                pending.into_slice(target).await
            }
            Err(error) => Err(error),
        };
        self.noticing_change(read)
    }

    /// The bytes from `offset` on, `length` of them or fewer at the end of the file. Takes no more memory than there are
    /// bytes, whatever `length` is. Runs on the client's runtime.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_at`].
    pub async fn read_async(&self, offset: u64, length: u64) -> Result<Bytes> {
        if let (Ok(small), true) = (usize::try_from(length), length <= LARGE_BYTES) {
            let mut target = vec![0; small];
            let read = self.read_at_async(offset, &mut target).await?;
            target.truncate(read);
            return Ok(target.into());
        }
        let size = self.stat_async().await?.size;
        let range = offset.min(size)..offset.saturating_add(length).min(size);
        let mut found = self.read_ranges_async(std::slice::from_ref(&range)).await?;
        Ok(found.pop().unwrap_or_default())
    }

    /// The bytes of `ranges`, in the order asked for, whatever that is; overlaps, duplicates and empty ranges included.
    /// More than a quarter of the cache goes past it.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_at`]; [`ErrorKind::Corrupt`] for ranges beyond the end of the file.
    pub fn read_ranges(&self, client: &Client, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        client.wait(self.read_ranges_async(ranges))
    }

    /// The same, for who waits in another way. Runs on the client's runtime.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_ranges`].
    pub async fn read_ranges_async(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let wanted = range::total_bytes(ranges);
        let small = wanted <= self.shared.config.cache.budget_bytes / 4;
        let Some(cached) = self.settled().await?.filter(|_| small) else {
            return self.read_past_cache(ranges).await;
        };
        self.note_reads(ranges);
        if wanted > SMALL_BYTES {
            self.source.expect_bulk();
        }
        let read = async {
            let mut read = pin!(cached.read_ranges(ranges));
            match poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
                Poll::Ready(done) => done,
                Poll::Pending => {
                    self.waits(ranges.first().map_or(0, |range| range.start), ranges.len());
                    read.await
                }
            }
        };
        self.noticing_change(read.await)
    }

    /// The same file, for a program that knows the layout of its trees and names all that it needs at once: nothing is
    /// foreseen from it. Reads through the one and the other are as of two files that are open.
    #[must_use]
    pub fn without_foresight(mut self) -> Self {
        if matches!(self.way, ReadPath::Cached(_)) {
            self.way =
                ReadPath::Cached(Arc::new(CachedReads { is_told: true, ..CachedReads::default() }));
        }
        self
    }

    /// Says that `ranges` will be read, in this order, about `when` from now. They are fetched in few requests ahead of
    /// that, together with what else will be read and as far as there is room, and dropped unread if the room is needed.
    /// None for local files, of which nothing is fetched ahead.
    pub fn hint(&self, ranges: &[Range<u64>], when: Duration) -> Option<HintId> {
        self.cached().map(|cached| cached.hint(ranges, when))
    }

    /// Asks for size, version, head and at least so many bytes of the tail at once, in one flight, for a program that is
    /// going to read a few small things at both ends and then much in between. The first use waits for that.
    ///
    /// Nothing for local files, for files that were used before, and for those of which the store has the ends.
    pub fn prefetch_ends(&self, tail: u64) {
        if let Some(ahead) = &self.ahead {
            ahead.set_tail(tail);
            self.source.expect_bulk();
            self.stand_in_line();
        }
    }

    /// Takes a hint back: what has not been asked for yet, and no other hint names, will not be.
    pub fn cancel(&self, hint: HintId) {
        if let Some(cached) = self.cached() {
            cached.cancel(hint);
        }
    }

    /// The file as it is read through the cache; none for local ones. May read credentials.
    pub(crate) fn cached(&self) -> Option<&CachedFile> {
        let ReadPath::Cached(cached) = &self.way else { return None };
        Some(cached.file.get_or_init(|| {
            let file_key = self.metadata_key();
            let key = file_key.clone().map_or_else(
                || CacheKey { name: self.source.name(), identity: String::new() },
                |key| CacheKey { name: key.url, identity: key.identity },
            );
            let ClientContext { cache, config, .. } = &*self.shared;
            let mut source = Arc::clone(&self.source);
            if let (Some(blocks), Some(key)) = (&self.shared.blocks, file_key) {
                let tiered = Arc::new(DiskCacheSource::new(source, Arc::clone(blocks), key));
                source = Arc::clone(cached.tiered.get_or_init(|| tiered)) as Arc<dyn Source>;
            }
            let file =
                CachedFile::new(source, Arc::clone(cache), key, config.reader, spawn(&self.shared));
            if let Some(recorder) = &self.recorder {
                file.set_recorder(recorder.clone());
            }
            let by_offset = Box::new(ReadAhead::new(config.read_ahead));
            let by_offset = Box::new(GatedPrefetcher::new(by_offset, cached.glances.clone()));
            if config.tree_cache.enabled && !cached.is_told {
                let (advisor, trees) = self.foresight(file.downgrade(), Some(by_offset));
                file.set_advisor(advisor);
                cached.trees.get_or_init(|| trees);
            } else {
                file.set_advisor(by_offset);
            }
            file
        }))
    }

    /// The same, with what was fetched of it when it was opened ahead; that is waited for.
    async fn settled(&self) -> Result<Option<&CachedFile>> {
        let ReadPath::Cached(cached) = &self.way else { return Ok(None) };
        let file = self.cached();
        if cached.settled.get().is_none()
            && let Some(file) = file
        {
            let opened = self.opened().await?;
            let stored = if opened.is_none() { self.remembered() } else { None };
            let fresh = stored.as_ref().filter(|it| self.shared.is_fresh(it)).map(version_of);
            let version = opened.as_ref().map(|it| it.version()).or(fresh);
            if let (Some(version), Some(tiered)) = (&version, cached.tiered.get()) {
                tiered.validate(version).await;
            }
            cached.settled.get_or_init(|| {
                match (&opened, &version, stored) {
                    (Some(opened), Some(version), _) => {
                        cached.glances.opened_ahead(self.reads_before(opened));
                        file.adopt(version, &opened.take_pieces());
                    }
                    (None, Some(version), Some(known)) => file.adopt(version, &known.pieces),
                    // It is taken for true until the first answer comes.
                    (_, _, Some(known)) => {
                        file.expect(&version_of(&known), &known.pieces);
                        cached.expects.store(true, Ordering::Relaxed);
                    }
                    (_, _, None) => {}
                }
                opened
            });
        }
        Ok(file)
    }

    /// Whether what was fetched ahead has been taken over, or there was nothing.
    fn is_settled(&self) -> bool {
        matches!(&self.way, ReadPath::Cached(cached) if cached.settled.get().is_some())
    }

    /// The program is about to wait for a read of so many `ranges`.
    fn waits(&self, offset: u64, ranges: usize) {
        if let ReadPath::Cached(cached) = &self.way
            && let Some(trees) = cached.trees.get()
        {
            let opened_ahead = matches!(cached.settled.get(), Some(Some(_)));
            trees.on_wait(offset, ranges, opened_ahead);
        }
    }

    /// What the store has of the file, if that tells its version.
    pub(crate) fn remembered(&self) -> Option<FileMetadata> {
        let (store, key) = (self.shared.store.as_ref()?, self.metadata_key()?);
        store.metadata(&key, SystemTime::now()).filter(|known| known.validator.is_some())
    }

    /// The first reads of a file that was opened ahead tell what to bring along with others.
    fn note_reads(&self, ranges: &[Range<u64>]) {
        if let ReadPath::Cached(cached) = &self.way
            && let Some(Some(opened)) = cached.settled.get()
            && opened.is_telling()
        {
            self.tell_reads(opened, ranges);
        }
    }

    /// If the file has changed, what the store has of it is of an older version as well.
    fn noticing_change<T>(&self, read: Result<T>) -> Result<T> {
        match &read {
            Err(error) if error.kind() == ErrorKind::Changed => _ = self.forget(),
            Err(_) => {}
            Ok(_) => {
                if let ReadPath::Cached(cached) = &self.way
                    && cached.expects.swap(false, Ordering::Relaxed)
                {
                    let version = cached.file.get().and_then(CachedFile::version);
                    self.confirmed(version.and_then(|version| version.validator));
                }
            }
        }
        read
    }

    /// A read that goes past the cache.
    async fn read_direct(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        let size = match &self.way {
            ReadPath::Direct(known) => known.get().copied(),
            ReadPath::Cached(_) => None,
        };
        let size = match size {
            Some(size) => size,
            None => self.size_by_asking().await?,
        };
        let end = size.min(offset.saturating_add(target.len() as u64));
        if offset >= end {
            return Ok(0);
        }
        let (found, _) = self.fetch_ranges(std::slice::from_ref(&(offset..end)), None).await?;
        let bytes = found.first().map(Bytes::as_ref).unwrap_or_default();
        if let Some(target) = target.get_mut(..bytes.len()) {
            target.copy_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    async fn size_by_asking(&self) -> Result<u64> {
        let size = self.first_byte(None).await?.size.ok_or_else(|| {
            Error::new(ErrorKind::Protocol, format!("{}: its size is not told", self.name()))
        })?;
        if let ReadPath::Direct(known) = &self.way {
            known.get_or_init(|| size);
        }
        Ok(size)
    }
}

fn version_of(known: &FileMetadata) -> Version {
    Version { size: Some(known.size), validator: known.validator.clone() }
}

/// Runs futures on the client's runtime.
fn spawn(shared: &ClientContext) -> Spawn {
    let runtime = shared.network.runtime().clone();
    Arc::new(move |future| drop(runtime.spawn(future)))
}

#[cfg(test)]
mod tests {
    use crate::{Client, ClientConfig};
    use hither_testkit::mock_http::MockHttpServer;

    #[test]
    fn both_ends_come_in_one_request_and_are_not_asked_for_again() {
        let content: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        let peer = MockHttpServer::start(content.clone()).unwrap();
        let client = Client::new(ClientConfig::default()).unwrap();
        let file = client.open(&peer.url_of("/f")).unwrap().without_foresight();
        file.prefetch_ends(20_000);
        for at in [0, 400, 180_000, 199_900] {
            let mut found = [0; 100];
            assert_eq!(file.read_at(&client, at, &mut found).unwrap(), 100);
            let at = usize::try_from(at).unwrap();
            assert_eq!(found, content[at..at + 100]);
        }
        assert_eq!(file.stat(&client).unwrap().size, 200_000);
        assert_eq!(peer.log().len(), 1, "{:?}", peer.log());
    }
}

//! One file, near or far.

pub(crate) mod assembly;
pub(crate) mod disk_cache;
pub(crate) mod positional;
pub(crate) mod stream;
use crate::client::{Client, ClientContext};
use crate::file::assembly::Assembly;
use crate::file::positional::ReadPath;
use crate::open_ahead::prefetched::PrefetchedEnds;
use crate::open_ahead::task::OpenAheadTask;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::tune::link::INITIAL_REQUEST_BYTES;
use hither_core::{
    CacheStatus, Endpoint, FileRecorder, Part, ReadTimes, Reader, Replicas, ResponseMeta, Source,
    SourceReport, range,
};
use hither_store::MetadataKey;
use hither_transport::{LocalSource, Location, ReplicaList};
use serde::Serialize;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// An open file. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RemoteFile {
    pub(crate) shared: Arc<ClientContext>,
    pub(crate) source: Arc<dyn Source>,
    /// What the file is remembered under, once it is known; none for local files, which need no remembering.
    key: Option<Arc<OnceLock<MetadataKey>>>,
    /// The source of a remote file, once more, and the first of the places behind it.
    remote: Option<(Arc<Replicas>, Location)>,
    /// Where reads are recorded, if they are.
    pub(crate) recorder: Option<FileRecorder>,
    /// Its way to be opened ahead of use, if it is a remote one.
    pub(crate) ahead: Option<Arc<OpenAheadTask>>,
    pub(crate) way: ReadPath,
}

/// What is known of a file without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileStat {
    /// Size in bytes.
    pub size: u64,
    /// Entity tag or date of the last change, as the server gives it.
    pub validator: Option<String>,
}

/// Ranges of more bytes than this are checked against the size of the file before anything is planned or allocated for
/// them.
const UNCHECKED_BYTES: u64 = 64 << 20;

/// Up to this one connection is as good as several: a few initial windows.
pub(crate) const SMALL_BYTES: u64 = 64 << 10;

impl RemoteFile {
    pub(crate) fn local(shared: Arc<ClientContext>, source: LocalSource) -> Self {
        let way = ReadPath::Direct(Arc::default());
        Self { way, ..Self::new(shared, Arc::new(source)) }
    }

    /// A file that nothing is remembered of.
    #[cfg(feature = "s3")]
    pub(crate) fn stored(shared: Arc<ClientContext>, source: Arc<dyn Source>) -> Self {
        let name = source.name();
        let site = name.rsplit_once('/').map_or(&*name, |(folder, _)| folder).to_owned();
        let ahead = OpenAheadTask::new(Arc::clone(&shared), Arc::clone(&source), None, site);
        Self { ahead: Some(ahead), ..Self::new(shared, source) }
    }

    fn new(shared: Arc<ClientContext>, source: Arc<dyn Source>) -> Self {
        let recording = shared.recording.as_ref();
        let recorder = recording.map(|it| it.of_file(&source.name(), source.clock()));
        Self {
            shared,
            source,
            key: None,
            remote: None,
            recorder,
            ahead: None,
            way: ReadPath::Cached(Arc::default()),
        }
    }

    /// The file at `location`, which is also at `others`.
    pub(crate) fn remote(
        shared: Arc<ClientContext>,
        location: Location,
        others: Vec<Location>,
    ) -> Self {
        let all = shared.network.replicated(&location, Arc::clone(&shared.health));
        others.into_iter().for_each(|place| all.add(shared.network.replica(place)));
        let source = Arc::clone(&all) as Arc<dyn Source>;
        let (place, site) = (Some(location.clone()), location.origin());
        let ahead = OpenAheadTask::new(Arc::clone(&shared), Arc::clone(&source), place, site);
        let (key, remote) = (Some(Arc::default()), Some((all, location)));
        Self { key, remote, ahead: Some(ahead), ..Self::new(shared, source) }
    }

    /// The same file, for reads that go past the cache.
    pub(crate) fn uncached(&self) -> Self {
        Self { way: ReadPath::Direct(Arc::default()), ahead: None, recorder: None, ..self.clone() }
    }

    /// The file that a document describes, which is also at `others`.
    pub(crate) fn described(
        shared: Arc<ClientContext>,
        mut found: ReplicaList,
        others: Vec<Location>,
    ) -> Result<Self> {
        if found.locations.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "the document names no place of the file"));
        }
        let file = Self::remote(shared, found.locations.remove(0), Vec::new());
        if let Some((all, _)) = &file.remote {
            file.shared.network.enlist(all, found);
            others.into_iter().for_each(|place| all.add(file.shared.network.replica(place)));
        }
        Ok(file)
    }

    /// What the file is remembered under: what one identity was shown is not shown to another.
    pub(crate) fn metadata_key(&self) -> Option<MetadataKey> {
        let (known, (_, location)) = (self.key.as_ref()?, self.remote.as_ref()?);
        let find = || {
            let network = &self.shared.network;
            // A command may have to give a token first.
            let identity = tokio::task::block_in_place(|| network.identity(location));
            MetadataKey { url: location.cache_key(), identity }
        };
        Some(known.get_or_init(find).clone())
    }

    /// What each place of the file has done, and why some are not used any more.
    #[must_use]
    pub fn replicas(&self) -> (Vec<SourceReport>, Vec<String>) {
        self.remote.as_ref().map(|(all, _)| (all.members(), all.notices())).unwrap_or_default()
    }

    /// The URL or path, without secrets.
    #[must_use]
    pub fn name(&self) -> String {
        self.source.name()
    }

    /// What has been learned about the server.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.source.endpoint()
    }

    /// Size and validator; one round trip, unless the file was opened ahead, or what the store has of it may be taken for
    /// true unasked.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] and the other refusals of a server; [`ErrorKind::Unavailable`], [`ErrorKind::Timeout`].
    pub fn stat(&self, client: &Client) -> Result<FileStat> {
        client.wait(self.stat_async())
    }

    /// The same, for who waits in another way. Runs on the client's runtime.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::stat`].
    pub async fn stat_async(&self) -> Result<FileStat> {
        let (size, validator) = match self.opened().await? {
            Some(opened) => (opened.size, opened.validator.clone()),
            None => match self.fresh_metadata() {
                Some(known) => (Some(known.size), known.validator),
                None => {
                    let answer = self.first_byte(None).await?;
                    (answer.size, answer.validator)
                }
            },
        };
        let size = size.ok_or_else(|| {
            Error::new(
                ErrorKind::Protocol,
                format!("{}: the server does not tell the size of the file", self.name()),
            )
        })?;
        self.remember_endpoint();
        Ok(FileStat { size, validator })
    }

    /// The smallest thing that can be asked of every server: its answer tells size and validator, and fails with
    /// [`ErrorKind::Changed`] if the file is not the one with `validator` any more.
    pub(crate) async fn first_byte(&self, validator: Option<String>) -> Result<ResponseMeta> {
        let mut reader = self.reader(validator);
        reader.push(std::slice::from_ref(&(0..1)), 1);
        while let Some(part) = reader.next().await {
            // An empty file has no first byte, and has said so.
            if let (Err(error), true) = (part, reader.answer().size != Some(0)) {
                return Err(error);
            }
        }
        Ok(reader.answer().clone())
    }

    /// The bytes of `ranges`, as [`RemoteFile::read_ranges`] gives them, which are not kept.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_ranges`]; [`ErrorKind::Corrupt`] for ranges beyond the end of the file.
    pub(crate) async fn read_past_cache(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.opened().await? {
            Some(opened) => self.read_opened(&opened, ranges).await,
            None => self.fetch_ranges(ranges, None).await.map(|(found, _)| found),
        }
    }

    /// Reads what was not fetched ahead, all of it in one go.
    async fn read_opened(
        &self,
        opened: &PrefetchedEnds,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        let submitted = self.source.clock().now();
        opened.check_within(ranges, &self.name())?;
        self.tell_reads(opened, ranges);
        let mut found = opened.get(ranges);
        let missing: Vec<Range<u64>> = ranges
            .iter()
            .zip(&found)
            .filter(|(_, bytes)| bytes.is_none())
            .map(|(range, _)| range.clone())
            .collect();
        if missing.is_empty() {
            self.record(ranges, submitted, CacheStatus::Hit, 0);
        } else {
            let read = self.fetch_ranges(&missing, opened.validator.clone()).await;
            if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::Changed) {
                // What the store has is of an older version as well.
                self.forget();
            }
            let mut read = read?.0.into_iter();
            found.iter_mut().filter(|bytes| bytes.is_none()).for_each(|gap| *gap = read.next());
        }
        Ok(found.into_iter().map(Option::unwrap_or_default).collect())
    }

    pub(crate) fn reader(&self, validator: Option<String>) -> Reader<'_> {
        Reader::new(&*self.source, validator, self.shared.config.reader)
    }

    /// Nothing is known of the path to it.
    pub(crate) fn is_stranger(&self) -> bool {
        self.remote.is_some() && self.source.link().rtt.is_none()
    }

    pub(crate) async fn fetch_ranges(
        &self,
        ranges: &[Range<u64>],
        validator: Option<String>,
    ) -> Result<(Vec<Bytes>, ResponseMeta)> {
        let wanted = range::total_bytes(ranges);
        let submitted = self.source.clock().now();
        if wanted > SMALL_BYTES {
            self.source.expect_bulk();
        }
        if wanted > UNCHECKED_BYTES {
            self.check_within(ranges, validator.clone()).await?;
        }
        let mut found = vec![Bytes::new(); ranges.len()];
        let mut missing = ranges.iter().filter(|range| range::len(range) > 0).count();
        let mut assembly = Assembly::new(
            ranges.iter().cloned().enumerate().filter(|(_, range)| range::len(range) > 0),
        );
        // Nothing is known of a path that was never used. The start of an answer tells how far away the server is and what
        // it takes in one request; planning all of it without that costs more than the round trip.
        let (first, rest) = match self.is_stranger() && wanted > SMALL_BYTES {
            true => range::divided(ranges, INITIAL_REQUEST_BYTES),
            false => (ranges.to_vec(), Vec::new()),
        };
        let mut reader = self.reader(validator);
        reader.push(&first, usize::MAX);
        let mut rest = Some(rest).filter(|rest| !rest.is_empty());
        while let Some(part) = reader.next().await {
            let part: Part = part?;
            if let Some(rest) = rest.take() {
                reader.push(&rest, usize::MAX);
            }
            assembly.accept(&part, |id, bytes| {
                missing -= 1;
                if let Some(slot) = found.get_mut(id) {
                    *slot = bytes;
                }
            });
            reader.release(part.bytes.len() as u64);
        }
        if missing > 0 {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("{}: {missing} of the ranges asked for lie beyond its end", self.name()),
            ));
        }
        self.record(ranges, submitted, CacheStatus::Miss, range::total_bytes(ranges));
        Ok((found, reader.answer().clone()))
    }

    /// Tells the trace of a read that has its bytes now, so many of them from the server for it.
    pub(crate) fn record(
        &self,
        ranges: &[Range<u64>],
        submitted: Duration,
        found: CacheStatus,
        fetched: u64,
    ) {
        let Some(recorder) = &self.recorder else { return };
        let now = self.source.clock().now();
        let times = ReadTimes { submitted, completed: now, consumed: now };
        recorder.record(ranges, times, found, fetched);
    }

    /// Fails if any of `ranges` lies beyond the end of the file. One round trip.
    async fn check_within(&self, ranges: &[Range<u64>], validator: Option<String>) -> Result<()> {
        let size = self.first_byte(validator).await?.size;
        match ranges.iter().find(|range| size.is_some_and(|size| range.end > size)) {
            Some(beyond) => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{} has {} bytes, but bytes {}..{} of it are wanted",
                    self.name(),
                    size.unwrap_or_default(),
                    beyond.start,
                    beyond.end
                ),
            )),
            None => Ok(()),
        }
    }

    /// Keeps what was learned about servers for the next run.
    pub(crate) fn remember_endpoint(&self) {
        if self.remote.is_some() {
            self.shared.network.remember_all();
        }
    }
}

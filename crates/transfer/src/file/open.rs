//! Opening of a file to be copied: its version, the decision to skip it, its target, and the bytes
//! already there.
//!
//! A file out of a listing is known by its entry there. One that was named by its URL is asked for
//! its first bytes instead, which tells the size and the version as well as a question for them
//! would, and brings a small file whole.

use crate::copy::context::{CopyContext, SmallSlot};
use crate::destination::Target;
use crate::file::block_map::BlockMap;
use crate::file::partial_file;
use crate::file::partial_file::PartialFile;
use crate::file::piece_buffer::{PieceBuffer, WriteBatch};
use crate::file::prefix_sum::PrefixSum;
use crate::file::sequencer::Sequencer;
use crate::file::suspects;
use crate::file::version::FileVersion;
use crate::file::{CopyItem, FileCopy, FileCopyState, Sink, upload_sink};
use crate::journal::Known;
use crate::options::{OverwritePolicy, Verify};
use hither_core::checksum::{Algorithm, Checksum, Hasher};
use hither_core::tune::link::INITIAL_REQUEST_BYTES;
use hither_core::{
    DirEntry, Error, ErrorKind, FileKind, PutOptions, Replicas, Request, Result, RetryPolicy,
    Source, VersionBinding, retry,
};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;
use tokio::task::spawn_blocking;
use tracing::debug;

/// Result of opening a file.
pub(crate) enum OpenResult {
    /// It is to be copied.
    File(Arc<FileCopy>),
    /// It is left as it is. Its size in bytes.
    Skipped(u64),
}

/// Pieces of a copy within this machine at a time. The kernel lets one thread write to a file, and
/// others spin for it; the checksums of a piece are computed while the next is copied.
const LOCAL_PIECES: usize = 2;
/// Workers that read ahead for a target that takes blocks in order: enough to hide a round trip.
const READ_AHEAD: usize = 16;

/// Opens a file. A small one has a slot.
pub(crate) async fn open(
    shared: &Arc<CopyContext>,
    item: CopyItem,
    slot: Option<SmallSlot>,
) -> Result<OpenResult> {
    let key = item.target.name();
    let known = shared.journal.as_ref().and_then(|journal| journal.take(&key));
    let (source, replicas) = source_of(&item)?;
    let (mut version, head) = identify(shared, &item, &source, known.as_ref()).await?;
    if item.entry.is_none() && item.backoff.failures() == 0 && !item.restarted {
        shared.progress.found_bytes(version.size);
    }
    if is_to_be_skipped(shared, &item, &version, known.as_ref()).await? {
        debug!(file = item.name, bytes = version.size, "file skipped");
        return Ok(OpenResult::Skipped(version.size));
    }
    if let Some(replicas) = &replicas {
        of_replicas(replicas, &mut version, known.as_ref()).await;
    }
    let known = known.filter(|known| known.version.is_surely(&version));
    let catalogued = replicas.as_ref().and_then(|replicas| replicas.expected_checksum());
    let algorithm = algorithm(shared, &item, &version, catalogued.as_ref());
    let pieces = replicas.as_ref().and_then(|replicas| replicas.pieces());
    let block_bytes = suspects::block_bytes(shared.options.block_bytes, pieces.as_deref());
    let opened = sink(shared, &item, &version, known, algorithm, block_bytes).await?;
    let (sink, mut blocks, is_new) = opened;
    let pieces = FileCopy::fitting_pieces(pieces, version.size, blocks.block_bytes());
    let SinkAbilities { parallel, token, takes_any_bytes } = sink.abilities(&item, algorithm).await;
    let chained = algorithm.filter(|algorithm| !algorithm.is_combinable());
    let in_order = parallel == 1 || chained.is_some() && !matches!(sink, Sink::Part(_));
    let room = shared.options.budget_bytes / (2 * blocks.block_bytes());
    let read_ahead = usize::try_from(room).unwrap_or(READ_AHEAD).clamp(1, READ_AHEAD);
    let arrived_bytes = head.as_ref().map_or(0, |head| head.bytes);
    if let Some(limiter) = &shared.options.bandwidth {
        limiter.take(arrived_bytes, item.directions());
    }
    // An upload may take nothing but whole blocks.
    let takes_head = takes_any_bytes || !matches!(sink, Sink::Upload(_));
    let fits = takes_head || arrived_bytes == version.size;
    let head = head.filter(|head| fits && blocks.written_bytes() == 0 && head.bytes > 0);
    shared.note_arrived(arrived_bytes, head.as_ref().map_or(0, |head| head.bytes));
    if let Some(head) = &head {
        // Written below.
        blocks.take_exactly(&head.range());
    }
    log_begin(&item.name, version.size, blocks.written_bytes());
    let file = Arc::new(FileCopy {
        shared: Arc::clone(shared),
        key,
        source,
        replicas,
        is_resumed: blocks.written_bytes() > 0,
        pieces,
        rejections: Mutex::default(),
        rejected_bytes: AtomicU64::new(0),
        writes_are_quick: AtomicBool::new(false),
        trials: Mutex::default(),
        journaled: Mutex::default(),
        sink,
        order: in_order.then(Sequencer::new),
        takes_any_bytes,
        slot: Mutex::new(slot),
        max_pieces: if in_order { read_ahead } else { parallel.max(1) },
        algorithm,
        is_journaled: version.size > shared.options.block_bytes,
        chain: chained.filter(|_| in_order).map(|it| Mutex::new(Hasher::new(it))),
        prefix: chained.filter(|_| !in_order).map(PrefixSum::new),
        asking: Mutex::default(),
        server_checksum: Mutex::default(),
        validator: Mutex::new(version.validator.clone()),
        binding: VersionBinding::default(),
        token: Mutex::new(token.clone()),
        state: Mutex::new(FileCopyState::new(blocks)),
        version,
        item,
    });
    if is_new && let (Some(journal), Some(part)) = (file.journal(), token) {
        journal.file(&file.key, &file.version, Some(&part))?;
    }
    if let Some(head) = head {
        file.hold(head.bytes);
        Arc::clone(&file).write(head).await?;
    }
    file.ask_for_checksum(algorithm);
    Ok(OpenResult::File(file))
}

fn log_begin(file: &str, bytes: u64, resumed: u64) {
    match resumed {
        0 => debug!(file, bytes, "file begun"),
        _ => debug!(file, bytes, resumed, "file resumed"),
    }
}

/// The source of a file, and the same with its replicas where there may be some.
type SourceAndReplicas = (Arc<dyn Source>, Option<Arc<Replicas>>);

fn source_of(item: &CopyItem) -> Result<SourceAndReplicas> {
    let replicas = item.storage.replicas(&item.path)?;
    let Some(all) = &replicas else { return Ok((item.storage.source(&item.path)?, None)) };
    all.begin_bulk();
    Ok((Arc::clone(all) as Arc<dyn Source>, replicas))
}

/// How a sink takes bytes.
struct SinkAbilities {
    /// Most blocks at the same time.
    parallel: usize,
    /// Where the bytes are until the file is whole.
    token: Option<String>,
    takes_any_bytes: bool,
}

impl Sink {
    async fn abilities(&self, item: &CopyItem, algorithm: Option<Algorithm>) -> SinkAbilities {
        let is_local = item.local.is_some() && algorithm.is_none();
        let of = |parallel, token| SinkAbilities { parallel, token, takes_any_bytes: false };
        match self {
            Self::Upload(upload) => match &*upload.read().await {
                Some(upload) => SinkAbilities {
                    takes_any_bytes: upload.takes_any_bytes(),
                    ..of(upload.parallel(), upload.token())
                },
                None => of(1, None),
            },
            Self::Part(part) if is_local => of(LOCAL_PIECES, Some(part.part_name())),
            Self::Part(part) => of(usize::MAX, Some(part.part_name())),
            Self::Output => of(1, None),
            Self::Discard => of(usize::MAX, None),
        }
    }
}

/// Completes the version of a file with replicas by what does not depend on the one that responded
/// first. If that does not show that an earlier attempt (`known`) was of the same version, but its
/// checksum is known, the servers are asked for theirs.
async fn of_replicas(replicas: &Replicas, version: &mut FileVersion, known: Option<&Known>) {
    version.replicas.extend(replicas.validators());
    let sum = |sum: Checksum| Some(sum.to_string());
    version.checksum = replicas.expected_checksum().and_then(sum);
    let Some(known) = known.filter(|known| !known.version.is_surely(version)) else { return };
    let stated = known.version.checksum.as_ref().and_then(|sum| sum.parse::<Checksum>().ok());
    if let (Some(stated), None) = (stated, &version.checksum) {
        replicas.ask_checksums(stated.algorithm()).await;
        version.checksum = replicas.agreed_checksum().and_then(sum);
    }
}

/// The version of the source, and its first bytes if they had to be asked for.
async fn identify(
    shared: &CopyContext,
    item: &CopyItem,
    source: &Arc<dyn Source>,
    known: Option<&Known>,
) -> Result<(FileVersion, Option<WriteBatch>)> {
    match &item.entry {
        Some(entry) => {
            let listed = FileVersion::of(entry);
            if known.is_some_and(|known| known.version.tells_more_than(&listed)) {
                return Ok((of_silent_listing(item, source, listed).await, None));
            }
            Ok((listed, None))
        }
        None if item.local.is_some() => {
            Ok((of_file(item.storage.stat(&item.path).await?, item)?, None))
        }
        None => match probe(&**source, &shared.options.retry).await {
            // A page about a directory has no validator, as most servers send it.
            Ok((version, head)) if version.validator.is_none() => {
                if let Ok(entry) = item.storage.stat(&item.path).await {
                    of_file(entry, item)?;
                }
                Ok((version, head))
            }
            Err(error) if error.may_be_directory() => {
                let Ok(entry) = item.storage.stat(&item.path).await else { return Err(error) };
                let version = of_file(entry, item)?;
                // An empty file has no first bytes. Others may be readable without this request; a
                // size that nobody tells counts as 0 in an entry.
                let is_known = version.size > 0 || error.kind() == ErrorKind::Corrupt;
                if is_known { Ok((version, None)) } else { Err(error) }
            }
            result => result,
        },
    }
}

/// The version of a file of which the listing told nothing but the size, as the server states it
/// now: an earlier attempt has copied some of it, and nothing has to be sent again if it is the
/// same.
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

fn of_file(entry: DirEntry, item: &CopyItem) -> Result<FileVersion> {
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

async fn probe(
    source: &dyn Source,
    policy: &RetryPolicy,
) -> Result<(FileVersion, Option<WriteBatch>)> {
    let buffer = Arc::new(PieceBuffer::new(0..u64::MAX));
    let into = Arc::clone(&buffer);
    let first = 0..INITIAL_REQUEST_BYTES;
    let request = Request { ranges: vec![first], ..Request::default() };
    // Files that are named one by one are large ones as a rule. On a long path a small one costs
    // handshakes for nothing, a large one would cost two round trips more: one to learn that it is
    // large, one to open the workers.
    source.expect_bulk();
    let attempt = || async {
        let into = Arc::clone(&into);
        let sink = Box::new(move |part| {
            into.accept(&part, true);
        });
        Ok(source.fetch(request.clone(), sink).await?)
    };
    let response = retry::run(policy, source.clock(), attempt).await?;
    let size = response.size.ok_or_else(|| {
        Error::new(
            ErrorKind::Protocol,
            format!("{}: the server does not state the size of the file", source.name()),
        )
    })?;
    let version = FileVersion { size, validator: response.validator, ..FileVersion::default() };
    Ok((version, buffer.take(1, false)))
}

/// The checksum to compute; none if nothing could be compared with it and none was requested.
/// That of a `catalogue` costs no question.
fn algorithm(
    shared: &CopyContext,
    item: &CopyItem,
    version: &FileVersion,
    catalogue: Option<&Checksum>,
) -> Option<Algorithm> {
    let verify = &shared.options.verify;
    if let (Verify::Automatic, Some(catalogue), false) =
        (verify, catalogue, matches!(item.target, Target::Discard))
    {
        return Some(catalogue.algorithm());
    }
    let no_checksum_expected = match &item.target {
        Target::Discard => true,
        Target::Local(_) => item.local.is_some(),
        Target::Remote(..) | Target::Output => false,
    };
    let small = version.size < shared.options.block_bytes;
    verify.algorithm().filter(|_| verify.is_explicit() || !no_checksum_expected && !small)
}

/// Returns true if the target is to be left as it is.
pub(crate) async fn is_to_be_skipped(
    shared: &CopyContext,
    item: &CopyItem,
    version: &FileVersion,
    known: Option<&Known>,
) -> Result<bool> {
    let done =
        known.and_then(|known| known.done.as_ref().filter(|_| known.version.is_surely(version)));
    let existing = shared.options.existing;
    let seen = match &item.target {
        Target::Local(path) => local_version(path)?,
        Target::Remote(storage, path)
            if done.is_some()
                || matches!(existing, OverwritePolicy::Keep | OverwritePolicy::Update) =>
        {
            let listed = match item.directory.as_ref().filter(|_| item.backoff.failures() == 0) {
                Some(directory) => directory.listed(path).await,
                None => None,
            };
            // A listing may not tell when a file has changed.
            let listed = listed.filter(|known| {
                known
                    .as_ref()
                    .is_none_or(|entry| entry.kind == FileKind::File && entry.modified.is_some())
            });
            match listed {
                Some(known) => known.map(|entry| of_file(entry, item)).transpose()?,
                None => match storage.stat(path).await {
                    Ok(entry) => Some(of_file(entry, item)?),
                    Err(error) if error.kind() == ErrorKind::NotFound => None,
                    Err(error) => return Err(error),
                },
            }
        }
        Target::Remote(..) | Target::Output | Target::Discard => None,
    };
    let Some(seen) = seen else { return Ok(false) };
    if let (Some(from), Target::Local(to)) = (&item.local, &item.target)
        && partial_file::is_same(from, to)
    {
        let message = format!("{} and {} are the same file", from.display(), to.display());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    should_skip(shared, &item.target, version, known, &seen)
}

/// Decides whether a file is left as it is, because an earlier attempt has copied it or by the rule
/// for existing targets. `seen` is what is at the target.
pub(crate) fn should_skip(
    shared: &CopyContext,
    target: &Target,
    version: &FileVersion,
    known: Option<&Known>,
    seen: &FileVersion,
) -> Result<bool> {
    if shared.options.existing == OverwritePolicy::Refuse {
        let message = format!("{} exists already", target.name());
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    if known.is_some_and(|known| known.is_done(version, seen)) {
        return Ok(true);
    }
    Ok(match shared.options.existing {
        OverwritePolicy::Replace | OverwritePolicy::Refuse => false,
        OverwritePolicy::Keep => true,
        OverwritePolicy::Update => seen.size == version.size && seen.is_not_older(version),
    })
}

/// The version of a local file now; none if there is none.
pub(crate) fn local_version(path: &Path) -> Result<Option<FileVersion>> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(partial_file::failed("cannot look at", path, error)),
    };
    if metadata.is_dir() {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("{} is a directory, expected a file or nothing", path.display()),
        ));
    }
    if !metadata.is_file() {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("{} is neither a file nor a directory", path.display()),
        ));
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(Some(FileVersion {
        size: metadata.len(),
        modified: modified.map(|since| (since.as_secs(), since.subsec_nanos())),
        ..FileVersion::default()
    }))
}

/// The sink, the blocks already there, and true if the journal needs a record of a new file.
async fn sink(
    shared: &Arc<CopyContext>,
    item: &CopyItem,
    version: &FileVersion,
    known: Option<Known>,
    algorithm: Option<Algorithm>,
    block_bytes: u64,
) -> Result<(Sink, BlockMap, bool)> {
    let blocks = BlockMap::new(version.size, block_bytes);
    match &item.target {
        Target::Output => Ok((Sink::Output, blocks, false)),
        Target::Discard => Ok((Sink::Discard, blocks, false)),
        Target::Local(path) => {
            let name = PartialFile::name(path, &shared.job);
            let bits = item.local.as_ref().and_then(|path| partial_file::mode_of(path));
            let mode = bits.or(item.mode).map(|bits| shared.file_mode(bits));
            if item.is_small {
                let part = PartialFile::small(path, &name, version.size, mode, version.modified());
                return Ok((Sink::Part(part), blocks, false));
            }
            let known = known.filter(|known| known.part.as_ref() == Some(&name));
            let path = path.clone();
            let size = version.size;
            let with_adler32 = algorithm == Some(Algorithm::Adler32);
            let is_new = known.is_none();
            let from = item.local.clone().filter(|_| is_new && algorithm.is_none());
            let opened = spawn_blocking(move || {
                let open = |path: PathBuf| {
                    File::open(&path)
                        .map_err(|error| partial_file::failed("cannot open", &path, error))
                };
                let from = from.map(open).transpose()?;
                let (part, is_shared) = PartialFile::open(&path, &name, size, mode, from.as_ref())?;
                if is_shared {
                    return Ok((Sink::Part(part), blocks.all_present(), false));
                }
                let blocks = verified(&part, blocks, &known.unwrap_or_default(), with_adler32);
                Ok((Sink::Part(part), blocks, is_new))
            });
            let died =
                |error| Err(Error::new(ErrorKind::Local, "a thread panicked").with_source(error));
            let opened = opened.await.unwrap_or_else(died)?;
            match opened.1.written_bytes() {
                bytes if is_new => {
                    shared.note_arrived(bytes, bytes);
                    shared.progress.done_bytes(bytes);
                }
                bytes => shared.note_resumed(bytes),
            }
            Ok(opened)
        }
        Target::Remote(storage, path) => {
            // Without a journal, nothing keeps another process from doing the same.
            let partial = shared
                .journal
                .as_ref()
                .map(|_| PartialFile::name(Path::new(&item.target.name()), &shared.job));
            let options = PutOptions {
                size: version.size,
                overwrite: shared.options.existing.replaces(),
                resume: None,
                modified: version.modified(),
                partial,
            };
            if let Some(part) = &item.range {
                let block_bytes = shared.options.block_bytes;
                return upload_sink::range(&**storage, path, options, part, block_bytes).await;
            }
            upload_sink::whole(shared, &**storage, path, options, known, algorithm.is_some()).await
        }
    }
}

/// The blocks that are in the part file as the journal says they should be.
fn verified(
    part: &PartialFile,
    mut blocks: BlockMap,
    known: &Known,
    with_adler32: bool,
) -> BlockMap {
    for (&at, (bytes, crc32c)) in &known.blocks {
        let range = at..at.saturating_add(*bytes);
        let is_block = blocks.within_blocks(range.clone()).eq([range.clone()]);
        if range.end > blocks.size() || !is_block {
            continue;
        }
        // What cannot be read is fetched again.
        if let Ok(checksums) = part.checksums(range.clone(), with_adler32)
            && checksums.crc32c == *crc32c
        {
            blocks.present(range, checksums);
        }
    }
    blocks
}

impl FileCopy {
    /// Asks the server for its checksum, while the bytes move.
    fn ask_for_checksum(self: &Arc<Self>, algorithm: Option<Algorithm>) {
        let verify = &self.shared.options.verify;
        let given = matches!(verify, Verify::Value(_));
        let is_asked = self.item.local.is_none() && !given && self.item.range.is_none();
        let Some(algorithm) = algorithm.filter(|_| is_asked) else {
            return;
        };
        if let Some(replicas) = &self.replicas {
            let is_catalogued = replicas.expected_checksum().is_some();
            if is_catalogued && self.version.size < self.shared.options.block_bytes {
                return;
            }
            let replicas = Arc::clone(replicas);
            let file = Arc::downgrade(self);
            self.set_asking(tokio::spawn(async move {
                replicas.ask_checksums(algorithm).await;
                // The odd one is excluded as soon as it is known.
                let agreed = replicas.agreed_checksum();
                if let Some(file) = file.upgrade() {
                    file.set_server_checksum(agreed.clone());
                    file.note_version()?;
                }
                Ok(agreed)
            }));
            return;
        }
        let storage = Arc::clone(&self.item.storage);
        let path = self.item.path.clone();
        let asking = tokio::spawn(async move { storage.checksum(&path, algorithm).await });
        self.set_asking(asking);
    }
}

//! Opening of a file to be copied: its version, the decision to skip it, its target, and the bytes
//! already there.
//!
//! A file out of a listing is known by its entry there. One that was named by its URL is asked for
//! its first bytes instead, which tells the size and the version as well as a question for them
//! would, and brings a small file whole.

use crate::copy::context::CopyContext;
use crate::destination::Target;
use crate::file::block_map::{BlockChecksums, BlockMap};
use crate::file::partial_file;
use crate::file::partial_file::PartialFile;
use crate::file::piece_buffer::{PieceBuffer, WriteBatch};
use crate::file::sequencer::Sequencer;
use crate::file::version::FileVersion;
use crate::file::{CopyItem, FileCopy, FileCopyState, Sink};
use crate::journal::Known;
use crate::options::{OverwritePolicy, Verify};
use hither_core::checksum::{Algorithm, Hasher};
use hither_core::tune::link::INITIAL_REQUEST_BYTES;
use hither_core::{
    DirEntry, Error, ErrorKind, FileKind, PutOptions, Request, Result, Retry, Source, Storage,
    VersionBinding,
};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::RwLock;
use tokio::task::spawn_blocking;
use tracing::debug;

/// Result of opening a file.
pub(crate) enum OpenResult {
    /// It is to be copied.
    File(Arc<FileCopy>),
    /// It is left as it is. Its size in bytes.
    Skipped(u64),
}

/// Workers that read ahead for a target that takes blocks in order: enough to hide a round trip.
const READ_AHEAD: usize = 16;
/// Maximum time to wait for a file that its server has to make ready first.
pub(crate) const STAGING_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) async fn open(shared: &Arc<CopyContext>, item: CopyItem) -> Result<OpenResult> {
    let key = item.target.name();
    let known = shared.journal.as_ref().and_then(|journal| journal.take(&key));
    let source = item.storage.source(&item.path)?;
    let (version, head) = identify(&item, &source).await?;
    if item.entry.is_none() {
        shared.progress.found_bytes(version.size);
    }
    if is_to_be_skipped(shared, &item, &version, known.as_ref()).await? {
        debug!(file = item.name, bytes = version.size, "file skipped");
        return Ok(OpenResult::Skipped(version.size));
    }
    let known = known.filter(|known| known.version.is_surely(&version));
    let algorithm = algorithm(shared, &item, &version);
    let (sink, mut blocks, is_new) = sink(shared, &item, &version, known, algorithm).await?;
    let (parallel, token) = match &sink {
        Sink::Upload(upload) => {
            let upload = upload.read().await;
            upload.as_ref().map_or((1, None), |upload| (upload.parallel(), upload.token()))
        }
        Sink::Part(part) => (usize::MAX, Some(part.part_name())),
        Sink::Output => (1, None),
        Sink::Discard => (usize::MAX, None),
    };
    let part = token.clone();
    let chained = algorithm.filter(|algorithm| !algorithm.is_combinable());
    let in_order = parallel == 1 || chained.is_some() && !matches!(sink, Sink::Part(_));
    let room = shared.options.budget_bytes / (2 * blocks.block_bytes());
    let read_ahead = usize::try_from(room).unwrap_or(READ_AHEAD).clamp(1, READ_AHEAD);
    let arrived_bytes = head.as_ref().map_or(0, |head| head.bytes);
    // An upload may take nothing but whole blocks.
    let fits = !matches!(sink, Sink::Upload(_)) || arrived_bytes == version.size;
    let head = head.filter(|head| fits && blocks.written_bytes() == 0 && head.bytes > 0);
    shared.note_arrived(arrived_bytes, head.as_ref().map_or(0, |head| head.bytes));
    if let Some(head) = &head {
        // Written below.
        blocks.take_exactly(&head.range());
    }
    match blocks.written_bytes() {
        0 => debug!(file = item.name, bytes = version.size, "file begun"),
        resumed => debug!(file = item.name, bytes = version.size, resumed, "file resumed"),
    }
    let chain = chained.filter(|_| in_order).map(|algorithm| Mutex::new(Hasher::new(algorithm)));
    let state = FileCopyState {
        blocks,
        running: Vec::new(),
        over: false,
        before: None,
        damaged: Vec::new(),
    };
    let file = Arc::new(FileCopy {
        shared: Arc::clone(shared),
        key,
        source,
        sink,
        order: in_order.then(Sequencer::new),
        max_pieces: if in_order { read_ahead } else { parallel.max(1) },
        algorithm,
        is_journaled: version.size > shared.options.block_bytes,
        chain,
        asking: Mutex::default(),
        server_checksum: Mutex::default(),
        validator: Mutex::new(version.validator.clone()),
        binding: VersionBinding::default(),
        token: Mutex::new(token),
        state: Mutex::new(state),
        version,
        item,
    });
    if is_new && let (Some(journal), Some(part)) = (file.journal(), part) {
        journal.file(&file.key, &file.version, Some(&part))?;
    }
    if let Some(head) = head {
        shared.budget.hold(head.bytes);
        Arc::clone(&file).write(head).await?;
    }
    file.ask_for_checksum(algorithm);
    Ok(OpenResult::File(file))
}

/// The version of the source, and its first bytes if they had to be asked for.
async fn identify(
    item: &CopyItem,
    source: &Arc<dyn Source>,
) -> Result<(FileVersion, Option<WriteBatch>)> {
    match &item.entry {
        Some(entry) => Ok((FileVersion::of(entry), None)),
        None if item.local.is_some() => {
            Ok((of_file(item.storage.stat(&item.path).await?, item)?, None))
        }
        None => match probe(&**source).await {
            // There are no first bytes of an empty file to be had.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let version = of_file(item.storage.stat(&item.path).await?, item)?;
                if version.size == 0 { Ok((version, None)) } else { Err(error) }
            }
            result => result,
        },
    }
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

async fn probe(source: &dyn Source) -> Result<(FileVersion, Option<WriteBatch>)> {
    let buffer = Arc::new(PieceBuffer::new(0..u64::MAX));
    let into = Arc::clone(&buffer);
    let first = 0..INITIAL_REQUEST_BYTES;
    let request = Request { ranges: vec![first], ..Request::default() };
    // Files that are named one by one are large ones as a rule. On a long path a small one costs
    // handshakes for nothing, a large one would cost two round trips more: one to learn that it is
    // large, one to open the workers.
    source.expect_bulk();
    // Two failures may befall the best server; a third is reported.
    let mut tries = 0;
    let mut waited = Duration::ZERO;
    let response = loop {
        let into = Arc::clone(&into);
        let sink = Box::new(move |part| {
            into.accept(&part, true);
        });
        match source.fetch(request.clone(), sink).await {
            Ok(response) => break response,
            Err(error) => match error.retry() {
                Retry::Later { after } if waited < STAGING_TIMEOUT => {
                    waited += after;
                    tokio::time::sleep(after).await;
                }
                Retry::SameServer { after } if tries < 3 => {
                    tries += 1;
                    tokio::time::sleep(after).await;
                }
                _ => return Err(error),
            },
        }
    };
    let size = response.size.ok_or_else(|| {
        Error::new(
            ErrorKind::Protocol,
            format!("{}: the server does not state the size of the file", source.name()),
        )
    })?;
    let version = FileVersion { size, validator: response.validator, modified: None };
    Ok((version, buffer.take(1, false)))
}

/// The checksum to compute; none if nothing could be compared with it and none was requested.
fn algorithm(shared: &CopyContext, item: &CopyItem, version: &FileVersion) -> Option<Algorithm> {
    let verify = &shared.options.verify;
    let no_checksum_expected = match &item.target {
        Target::Discard => true,
        Target::Local(_) => item.local.is_some(),
        Target::Remote(..) | Target::Output => false,
    };
    let small = version.size < shared.options.block_bytes;
    verify.algorithm().filter(|_| verify.is_explicit() || !no_checksum_expected && !small)
}

async fn is_to_be_skipped(
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
            match storage.stat(path).await {
                Ok(entry) => Some(of_file(entry, item)?),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            }
        }
        Target::Remote(..) | Target::Output | Target::Discard => None,
    };
    let Some(seen) = seen else { return Ok(false) };
    if existing == OverwritePolicy::Refuse {
        let message = format!("{} exists already", item.target.name());
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    if let (Some(from), Target::Local(to)) = (&item.local, &item.target)
        && partial_file::is_same(from, to)
    {
        let message = format!("{} and {} are the same file", from.display(), to.display());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    if done.is_some_and(|done| done.is_surely(&seen)) {
        return Ok(true);
    }
    Ok(match existing {
        OverwritePolicy::Replace | OverwritePolicy::Refuse => false,
        OverwritePolicy::Keep => true,
        OverwritePolicy::Update => {
            let not_older = version.modified.is_some() && seen.modified >= version.modified;
            seen.size == version.size && not_older
        }
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
        validator: None,
        modified: modified.map(|since| (since.as_secs(), since.subsec_nanos())),
    }))
}

/// The sink, the blocks already there, and true if the journal needs a record of a new file.
async fn sink(
    shared: &Arc<CopyContext>,
    item: &CopyItem,
    version: &FileVersion,
    known: Option<Known>,
    algorithm: Option<Algorithm>,
) -> Result<(Sink, BlockMap, bool)> {
    let block_bytes = shared.options.block_bytes;
    let blocks = BlockMap::new(version.size, block_bytes);
    match &item.target {
        Target::Output => Ok((Sink::Output, blocks, false)),
        Target::Discard => Ok((Sink::Discard, blocks, false)),
        Target::Local(path) => {
            let name = PartialFile::name(path, &shared.job);
            let mode = item.local.as_ref().and_then(|path| partial_file::mode_of(path));
            let known = known.filter(|known| known.part.as_ref() == Some(&name));
            let path = path.clone();
            let size = version.size;
            let with_adler32 = algorithm == Some(Algorithm::Adler32);
            let opened = spawn_blocking(move || {
                let part = PartialFile::open(&path, &name, size, mode)?;
                let is_new = known.is_none();
                let blocks = verified(&part, blocks, &known.unwrap_or_default(), with_adler32);
                Ok((Sink::Part(part), blocks, is_new))
            });
            let died =
                |error| Err(Error::new(ErrorKind::Local, "a thread panicked").with_source(error));
            let opened = opened.await.unwrap_or_else(died)?;
            shared.note_resumed(opened.1.written_bytes());
            Ok(opened)
        }
        Target::Remote(storage, path) => {
            upload(shared, &**storage, path, version, known, algorithm.is_some()).await
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

async fn upload(
    shared: &Arc<CopyContext>,
    storage: &dyn Storage,
    path: &str,
    version: &FileVersion,
    known: Option<Known>,
    with_checksum: bool,
) -> Result<(Sink, BlockMap, bool)> {
    // The sums of blocks that went in an earlier attempt are not all known: where one was asked
    // for, all go again.
    let resumable = !(shared.options.verify.is_explicit() && with_checksum);
    let known = known.filter(|_| resumable);
    let options = PutOptions {
        size: version.size,
        overwrite: shared.options.existing.replaces(),
        resume: known.as_ref().and_then(|known| known.part.clone()),
    };
    let resume = options.resume.clone();
    let upload = storage.put(path, options).await?;
    let block_bytes = match upload.block_bytes() {
        0 | 1 => shared.options.block_bytes,
        unit => unit,
    };
    let mut blocks = BlockMap::new(version.size, block_bytes);
    let is_new = resume.is_none() || upload.token() != resume;
    // An upload that is still the same has every block that it took, so the journal's word is
    // enough.
    let known = known.filter(|_| !is_new).unwrap_or_default();
    for (&at, (bytes, crc32c)) in &known.blocks {
        let range = at..at.saturating_add(*bytes);
        let is_block = blocks.within_blocks(range.clone()).eq([range.clone()]);
        if is_block && range.end <= version.size {
            blocks.present(range, BlockChecksums { crc32c: crc32c.clone(), adler32: None });
        }
    }
    shared.note_resumed(blocks.written_bytes());
    Ok((Sink::Upload(RwLock::new(Some(upload))), blocks, is_new))
}

impl FileCopy {
    /// Asks the server for its checksum, while the bytes move.
    fn ask_for_checksum(&self, algorithm: Option<Algorithm>) {
        let verify = &self.shared.options.verify;
        let given = matches!(verify, Verify::Value(_));
        let Some(algorithm) = algorithm.filter(|_| self.item.local.is_none() && !given) else {
            return;
        };
        let storage = Arc::clone(&self.item.storage);
        let path = self.item.path.clone();
        let asking = tokio::spawn(async move { storage.checksum(&path, algorithm).await });
        self.set_asking(asking);
    }
}

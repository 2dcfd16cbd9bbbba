//! The files at some paths, with their bytes or without.
//!
//! A buffer is filled by one task on a thread that may wait for the disk: files are opened and read
//! into it, one after the other. A file that does not fit begins the next buffer; one that is
//! larger than a buffer gets a larger one, and one that is larger than a record is only named.

use super::{RecordSource, TreeStream, entry};
use crate::backend::{BackendError, BackendErrorKind, VisitedFile};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use bytes::Bytes;
use hither_core::storage::FileKind;
use hither_core::sync::lock;
use hither_http::tree::{MAX_CONTENT_BYTES, TreeWriter};
use http::StatusCode;
use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// The maximum number of paths that one task handles.
const MAX_BATCH: usize = 256;
/// The space for a record in addition to its content.
const TEXT_BYTES: usize = 8 << 10;

/// The paths whose files are to be sent.
#[derive(Debug)]
pub(super) struct Contents {
    /// Paths relative to the directory of the request.
    paths: VecDeque<String>,
    with_content: bool,
    /// The size of the next buffer, if its first file needs a larger one.
    needed: Option<usize>,
}

/// A buffer that is being filled.
#[derive(Debug)]
struct BlockBuilder {
    out: Vec<u8>,
    writer: TreeWriter,
    room: usize,
    with_content: bool,
    /// Paths that are finished.
    done: usize,
    /// The space that the next file needs, if it did not fit.
    needed: Option<usize>,
    /// The path that has a symbolic link.
    link: Option<BackendError>,
}

impl Contents {
    pub(super) fn new(paths: Vec<String>, with_content: bool) -> Self {
        Self { paths: paths.into(), with_content, needed: None }
    }

    /// Visits files: those at `paths`, whose records have the names `names`.
    async fn visit(
        &self,
        context: &ServerContext,
        builder: BlockBuilder,
        names: Vec<String>,
        paths: Vec<String>,
    ) -> io::Result<BlockBuilder> {
        let shared = Arc::new(Mutex::new(builder));
        let visited = Arc::clone(&shared);
        let visitor = move |index: usize, file: Result<VisitedFile<'_>, BackendError>| {
            let name = names.get(index).map(String::as_str).unwrap_or_default();
            lock(&visited).take(name, file)
        };
        context.backend.visit(paths, Box::new(visitor)).await.map_err(io::Error::other)?;
        let builder = Arc::try_unwrap(shared).map(Mutex::into_inner);
        let lost = || io::Error::other("the backend kept a visitor");
        builder.map_err(|_| lost())?.map_err(|_| lost())
    }
}

impl BlockBuilder {
    /// Writes the record of a file, unless it does not fit any more.
    fn take(&mut self, name: &str, file: Result<VisitedFile<'_>, BackendError>) -> ControlFlow<()> {
        match file {
            Err(error) if error.kind() == BackendErrorKind::Link => {
                self.link = Some(error);
                return ControlFlow::Break(());
            }
            Err(error) => self.failed(name, &error.into()),
            Ok(VisitedFile { metadata, read }) => {
                let named = entry(name, metadata);
                let has_content = metadata.kind == FileKind::File
                    && self.with_content
                    && metadata.size.is_some_and(|size| size <= u64::from(MAX_CONTENT_BYTES));
                let size = usize::try_from(metadata.open_bytes()).unwrap_or(usize::MAX);
                if metadata.kind == FileKind::Directory {
                    self.writer.directory(&named, &mut self.out);
                } else if !has_content {
                    self.writer.file(&named, &mut self.out);
                } else if self.out.len().saturating_add(size).saturating_add(TEXT_BYTES) > self.room
                {
                    self.needed = Some(size + TEXT_BYTES);
                    return ControlFlow::Break(());
                } else {
                    let write = |out: &mut Vec<u8>| {
                        let start = out.len();
                        out.resize(start + size, 0);
                        read(out.get_mut(start..).unwrap_or_default())
                    };
                    if let Err(error) = self.writer.content(&named, &mut self.out, write) {
                        let changed = io::ErrorKind::UnexpectedEof;
                        let error = match error {
                            Some(error) if error.kind() != changed => BackendError::from(error),
                            _ => BackendError::new(
                                BackendErrorKind::Unavailable,
                                "the file became shorter while it was read",
                            ),
                        };
                        self.failed(name, &error.into());
                    }
                }
            }
        }
        self.done += 1;
        if self.out.len() + TEXT_BYTES > self.room {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn failed(&mut self, name: &str, error: &HttpError) {
        self.writer.failed(name, error.status.as_u16(), &error.what, &mut self.out);
    }
}

impl RecordSource for Contents {
    async fn fill(&mut self, tree: &mut TreeStream) -> io::Result<Bytes> {
        let usual = tree.request.peer.memory.block_bytes(tree.context.limits().block_bytes);
        let room = self.needed.take().map_or(usual, |needed| needed.max(usual));
        let mut buffer = tree.borrow(room).await?;
        let mut builder = BlockBuilder {
            out: std::mem::take(buffer.buffer()),
            writer: std::mem::take(&mut tree.writer),
            room,
            with_content: self.with_content,
            done: 0,
            needed: None,
            link: None,
        };
        let began = Instant::now();
        while builder.out.len() + TEXT_BYTES <= room && builder.needed.is_none() {
            // Paths that are refused are answered here, up to the first that is not.
            let Some(name) = self.paths.front() else { break };
            if let Err(error) = readable(tree, name, self.with_content).await {
                builder.failed(name, &error);
                self.paths.pop_front();
                continue;
            }
            // Each file may be on tape.
            let batch = if tree.context.tape.is_some() { 1 } else { MAX_BATCH };
            let names = self.paths.iter().take(batch);
            let names = names.map_while(|name| Some((name.clone(), allowed(tree, name).ok()?)));
            let (names, paths): (Vec<_>, Vec<_>) = names.unzip();
            builder.done = 0;
            builder = self.visit(&tree.context, builder, names, paths).await?;
            drop(self.paths.drain(..builder.done.min(self.paths.len())));
            if let Some(error) = builder.link.take()
                && let Some(name) = self.paths.pop_front()
            {
                let from = tree.path(&name).map(|path| path.path().to_owned());
                let target = match from {
                    Ok(from) => tree.context.link_target(&tree.request, &from, error).await,
                    Err(error) => Err(error),
                };
                match target {
                    Err(error) => builder.failed(&name, &error),
                    Ok(target) => {
                        let paths = vec![target.path().to_owned()];
                        builder.done = 0;
                        let names = vec![name.clone()];
                        builder = self.visit(&tree.context, builder, names, paths).await?;
                        if let Some(error) = builder.link.take() {
                            // A link has been created there meanwhile.
                            builder.failed(&name, &error.into());
                        } else if builder.done == 0 {
                            self.paths.push_front(name);
                        }
                    }
                }
            }
        }
        tree.request.body.tally.disk(began.elapsed());
        let BlockBuilder { mut out, mut writer, needed, .. } = builder;
        self.needed = needed;
        if self.paths.is_empty() {
            writer.end(&mut out);
            tree.is_over = true;
        }
        tree.writer = writer;
        let filled = out.len();
        *buffer.buffer() = out;
        Ok(buffer.freeze(filled))
    }
}

/// Fails unless this client may read the path of a record, and the requested bytes are on disk.
async fn readable(tree: &TreeStream, name: &str, with_content: bool) -> Result<(), HttpError> {
    let path = allowed(tree, name)?;
    match tree.context.tape.as_ref().filter(|_| with_content) {
        Some(tape) => tape.check_on_disk(&path).await,
        None => Ok(()),
    }
}

/// The path of a record, if this client may read it.
fn allowed(tree: &TreeStream, name: &str) -> Result<String, HttpError> {
    let path = tree.path(name)?;
    if !tree.filter.shows(path.path()) {
        tree.context.authorize(
            &tree.request,
            &path,
            crate::authorization::authorizer::Action::Read,
        )?;
        return Err(HttpError::new(StatusCode::FORBIDDEN, "this client may not read this path"));
    }
    Ok(path.path().to_owned())
}

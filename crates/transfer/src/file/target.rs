//! The target of a file that is copied: a partial file, an upload, or an output.
//!
//! Targets differ in the writes that they take: a local file takes any bytes at any offset; an
//! upload takes whole blocks, on some servers in order; the standard output takes bytes in order.

pub(crate) mod kernel_copy;
pub(crate) mod partial_file;
pub(crate) mod sequencer;

use crate::file::item::CopyItem;
use crate::file::target::partial_file::PartialFile;
use crate::file::target::sequencer::Sequencer;
use hither_core::sync::lock;
use hither_core::{Result, Upload};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::RwLock;

/// The longest time for which a write may block a thread that drives sockets. The kernel blocks a
/// program that writes faster than the disk for longer (at least 10 ms).
const QUICK: Duration = Duration::from_millis(8);
/// Pieces of a copy within this machine at a time. The kernel lets one thread write to a file, and
/// others spin for it; the checksums of a piece are computed while the next is copied.
const LOCAL_PIECES: usize = 2;

/// Where the bytes go.
#[derive(Debug)]
pub(crate) enum Sink {
    Part(PartialFile),
    /// The upload; none once it is committed.
    Upload(RwLock<Option<Box<dyn Upload>>>),
    Output,
    Discard,
}

/// The forms in which a sink takes bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SinkAbilities {
    /// Most blocks at the same time.
    pub(crate) parallel: usize,
    /// The token of the partial file or upload, with which a later attempt resumes.
    pub(crate) token: Option<String>,
    /// An upload takes bytes in writes of any length.
    pub(crate) takes_any_bytes: bool,
}

/// The target of one file.
#[derive(Debug)]
pub(crate) struct FileTarget {
    sink: Sink,
    /// For targets that take blocks in order.
    order: Option<Sequencer>,
    /// An upload takes bytes in writes of any length.
    takes_any_bytes: bool,
    /// The file is copied as a whole.
    is_small: bool,
    /// The last write took less than [`QUICK`].
    writes_are_quick: AtomicBool,
    /// The token of the partial file or upload, with which a later attempt resumes.
    token: Mutex<Option<String>>,
}

impl Sink {
    /// The forms in which it takes the bytes of `item`, of which checksums are computed if it
    /// `is_summed`.
    pub(crate) async fn abilities(&self, item: &CopyItem, is_summed: bool) -> SinkAbilities {
        let is_local = item.local.is_some() && !is_summed;
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

impl FileTarget {
    /// The target of a file. Blocks are written in `order`, if there is one.
    pub(crate) fn new(
        sink: Sink,
        abilities: SinkAbilities,
        order: Option<Sequencer>,
        is_small: bool,
    ) -> Self {
        Self {
            sink,
            order,
            takes_any_bytes: abilities.takes_any_bytes,
            is_small,
            writes_are_quick: AtomicBool::new(false),
            token: Mutex::new(abilities.token),
        }
    }

    pub(crate) fn sink(&self) -> &Sink {
        &self.sink
    }

    /// The partial file, if the target is on this machine.
    pub(crate) fn part(&self) -> Option<&PartialFile> {
        match &self.sink {
            Sink::Part(part) => Some(part),
            Sink::Upload(_) | Sink::Output | Sink::Discard => None,
        }
    }

    /// The upload, if the target is on a server.
    pub(crate) fn upload(&self) -> Option<&RwLock<Option<Box<dyn Upload>>>> {
        match &self.sink {
            Sink::Upload(upload) => Some(upload),
            Sink::Part(_) | Sink::Output | Sink::Discard => None,
        }
    }

    /// Returns true if bytes are dropped.
    pub(crate) fn discards(&self) -> bool {
        matches!(self.sink, Sink::Discard)
    }

    /// Returns true if written bytes remain at the target after an interruption.
    pub(crate) fn is_persistent(&self) -> bool {
        matches!(self.sink, Sink::Part(_) | Sink::Upload(_))
    }

    /// Returns true if all bytes can be written once more.
    pub(crate) fn can_begin_again(&self) -> bool {
        matches!(self.sink, Sink::Part(_) | Sink::Discard)
    }

    /// Returns true if it is uploaded by one request, in order.
    pub(crate) fn is_stream(&self) -> bool {
        self.order.is_some() && self.upload().is_some()
    }

    /// Returns true if blocks are written in order.
    pub(crate) fn is_ordered(&self) -> bool {
        self.order.is_some()
    }

    /// Returns true if writes must be whole blocks.
    pub(crate) fn is_exact(&self) -> bool {
        let needs_blocks = match self.sink {
            Sink::Upload(_) => !self.takes_any_bytes,
            Sink::Output => true,
            Sink::Part(_) | Sink::Discard => false,
        };
        needs_blocks || self.order.is_some() || self.is_small
    }

    /// Returns true if written bytes cannot be taken back.
    pub(crate) fn is_final(&self) -> bool {
        self.is_exact() && self.part().is_none()
    }

    /// Waits for the turn of the bytes that begin at `offset`.
    pub(crate) async fn turn(&self, offset: u64) -> Result<()> {
        match &self.order {
            Some(order) => order.turn(offset).await,
            None => Ok(()),
        }
    }

    /// Gives the turn to the bytes that follow the end of the written ones, as `written` returns
    /// it.
    pub(crate) fn advance(&self, written: impl FnOnce() -> u64) {
        if let Some(order) = &self.order {
            order.advance(written());
        }
    }

    /// Ends the waiting for turns, because the file has failed.
    pub(crate) fn fail(&self) {
        self.order.iter().for_each(Sequencer::fail);
    }

    /// Returns true if batches are written by the thread that has received them. False for a small
    /// file, which has to be created first, and for a pipe, whose reader may be slow.
    pub(crate) fn writes_in_place(&self) -> bool {
        let may = self.part().is_some() && !self.is_small;
        may && self.writes_are_quick.load(Ordering::Relaxed)
    }

    /// Notes how long a write has taken.
    pub(crate) fn note_write(&self, took: Duration) {
        self.writes_are_quick.store(took < QUICK, Ordering::Relaxed);
    }

    /// The token that a later attempt resumes with.
    pub(crate) fn token(&self) -> Option<String> {
        lock(&self.token).clone()
    }

    /// Notes the token; an upload may change it with every block. `changed` is called if it has.
    pub(crate) fn note_token(&self, token: Option<String>, changed: impl FnOnce(Option<&str>)) {
        let mut known = lock(&self.token);
        if *known != token {
            changed(token.as_deref());
            *known = token;
        }
    }

    /// The largest number of small files that may be uploaded at a time; none without an upload, 0
    /// if the limit of the server is unknown.
    pub(crate) async fn max_small_uploads(&self) -> Option<usize> {
        let upload = self.upload()?.read().await;
        Some(upload.as_ref().map_or(0, |upload| upload.max_small_files()))
    }

    /// Removes a partial file or upload. A part of an upload that others write (`is_range`) stays.
    pub(crate) async fn abandon(&self, is_range: bool) {
        match &self.sink {
            Sink::Part(part) => part.remove(),
            Sink::Upload(upload) => {
                if let Some(upload) = upload.write().await.take()
                    && !is_range
                {
                    // The error that ended the copy is the one to report.
                    drop(upload.abort().await);
                }
            }
            Sink::Output | Sink::Discard => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::path::Path;

    fn target(sink: Sink, order: Option<Sequencer>, is_small: bool) -> FileTarget {
        let abilities =
            SinkAbilities { parallel: 1, token: Some("a".to_owned()), takes_any_bytes: false };
        FileTarget::new(sink, abilities, order, is_small)
    }

    fn part() -> Sink {
        Sink::Part(PartialFile::small(Path::new("/nowhere/data"), ".part", 4, None, None))
    }

    fn upload() -> Sink {
        Sink::Upload(RwLock::new(None))
    }

    #[test]
    fn only_files_of_this_machine_take_any_bytes_at_any_place() {
        let ordered = || Some(Sequencer::new(0));
        let exact = [
            target(part(), None, false),
            target(part(), None, true),
            target(part(), ordered(), false),
            target(upload(), None, false),
            target(Sink::Output, ordered(), false),
            target(Sink::Discard, None, false),
        ];
        let found = exact.each_ref().map(FileTarget::is_exact);
        assert_eq!(found, [false, true, true, true, true, false]);
        let found = exact.each_ref().map(FileTarget::is_final);
        assert_eq!(found, [false, false, false, true, true, false]);
        assert!(target(upload(), ordered(), false).is_stream());
        assert!(!target(upload(), None, false).is_stream());
        let any = SinkAbilities { parallel: 4, token: None, takes_any_bytes: true };
        assert!(!FileTarget::new(upload(), any, None, false).is_exact());
    }

    #[test]
    fn a_slow_write_moves_the_next_ones_away_from_the_sockets() {
        let target = target(part(), None, false);
        assert!(!target.writes_in_place());
        target.note_write(QUICK / 2);
        assert!(target.writes_in_place());
        target.note_write(QUICK);
        assert!(!target.writes_in_place());
        for other in [self::target(part(), None, true), self::target(Sink::Output, None, false)] {
            other.note_write(Duration::ZERO);
            assert!(!other.writes_in_place());
        }
    }

    #[test]
    fn a_token_is_noted_when_it_changes() {
        let target = target(upload(), None, false);
        let mut noted = Vec::new();
        for token in ["a", "b", "b", "c"] {
            target.note_token(Some(token.to_owned()), |token| noted.push(token.map(str::to_owned)));
        }
        assert_eq!(noted, [Some("b".to_owned()), Some("c".to_owned())]);
        assert_eq!(target.token(), Some("c".to_owned()));
    }

    #[test]
    fn blocks_wait_for_their_turn_only_where_there_is_an_order() {
        let target = target(Sink::Output, Some(Sequencer::new(0)), false);
        let mut second = Box::pin(target.turn(4));
        assert!(second.as_mut().now_or_never().is_none());
        target.advance(|| 4);
        assert!(second.now_or_never().unwrap().is_ok());
        let any = self::target(part(), None, false);
        any.advance(|| unreachable!("there are no turns"));
        assert!(any.turn(4).now_or_never().unwrap().is_ok());
    }

    #[test]
    fn abilities_follow_from_the_sink() {
        let source = crate::destination::CopyPath {
            storage: std::sync::Arc::new(hither_transport::LocalStorage::new(
                "/",
                Default::default(),
            )),
            path: "x".to_owned(),
            local: Some("/x".into()),
            is_directory: false,
            contents: false,
        };
        let item = CopyItem::new(source, None, crate::destination::Target::Discard);
        let parallel = |sink: Sink, is_summed| {
            sink.abilities(&item, is_summed).now_or_never().unwrap().parallel
        };
        assert_eq!(parallel(part(), false), LOCAL_PIECES);
        assert_eq!(parallel(part(), true), usize::MAX);
        assert_eq!(parallel(Sink::Output, false), 1);
    }
}

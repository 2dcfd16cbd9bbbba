//! Walks of trees: listings that arrive in parts, and infinite trees.

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use hither_core::retry::{Delivery, Failure, RetryPolicy};
use hither_core::source::clock::Clock;
use hither_core::storage::{TreeEvent, TreeEvents, TreeRequest};
use hither_core::{
    DirEntry, Endpoint, Error, ErrorKind, FileKind, Limits, LinkEstimate, Part, PartSink, Request,
    ResponseMeta, Result, Source, Storage,
};
use hither_transfer::{
    CopyOptions, CopyPath, CopyProgress, CopySummary, Destination, ResumedWalk, copy,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BATCH: usize = 100;

/// Number of listed names, and of fetched files.
#[derive(Debug, Default)]
struct Counts {
    listed: AtomicUsize,
    fetched: AtomicUsize,
    listed_at_first_fetch: AtomicUsize,
    most_waiting: AtomicUsize,
}

/// A directory of one-byte files that is listed in parts.
#[derive(Debug)]
struct Wide {
    files: usize,
    counts: Arc<Counts>,
}

/// A directory that contains a file and another such directory.
#[derive(Debug, Default)]
struct Endless(Arc<Counts>);

#[derive(Debug)]
struct OneByte(Arc<Counts>);

#[derive(Debug)]
struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn random(&self) -> u64 {
        0
    }
}

impl Source for OneByte {
    fn name(&self) -> String {
        "one byte".to_owned()
    }
    fn limits(&self) -> Limits {
        Limits::unlimited()
    }
    fn link(&self) -> LinkEstimate {
        LinkEstimate::default()
    }
    fn clock(&self) -> &dyn Clock {
        &NoClock
    }
    fn endpoint(&self) -> Endpoint {
        Endpoint::default()
    }
    fn max_connections(&self) -> usize {
        4
    }
    fn idle_connections(&self) -> usize {
        4
    }
    fn preconnect(&self, _: usize) {}
    fn fetch(&self, _: Request, mut sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        let counts = &self.0;
        let listed = counts.listed.load(Ordering::SeqCst);
        let fetched = counts.fetched.fetch_add(1, Ordering::SeqCst);
        if fetched == 0 {
            counts.listed_at_first_fetch.store(listed, Ordering::SeqCst);
        }
        counts.most_waiting.fetch_max(listed.saturating_sub(fetched), Ordering::SeqCst);
        sink(Part { offset: 0, bytes: Bytes::from_static(b"x") });
        Box::pin(std::future::ready(Ok(ResponseMeta { size: Some(1), ..Default::default() })))
    }
}

#[async_trait]
impl Storage for Wide {
    fn name(&self) -> String {
        "wide:".to_owned()
    }
    async fn stat(&self, path: &str) -> Result<DirEntry> {
        Ok(DirEntry::new(path, FileKind::Directory, 0))
    }
    fn list_batches<'a>(&'a self, path: &'a str) -> BoxStream<'a, Result<hither_core::Listing>> {
        let batches = (0..self.files / BATCH).map(move |batch| {
            self.counts.listed.fetch_add(BATCH, Ordering::SeqCst);
            let numbers = batch * BATCH..(batch + 1) * BATCH;
            let entry = |n| DirEntry::new(format!("{path}/{n}"), FileKind::File, 1);
            Ok(numbers.map(entry).collect::<Vec<_>>().into())
        });
        Box::pin(futures_util::stream::iter(batches))
    }
    fn source(&self, _: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(OneByte(Arc::clone(&self.counts))))
    }
}

#[async_trait]
impl Storage for Endless {
    fn name(&self) -> String {
        "endless:".to_owned()
    }
    async fn stat(&self, path: &str) -> Result<DirEntry> {
        Ok(DirEntry::new(path, FileKind::Directory, 0))
    }
    async fn list(&self, path: &str) -> Result<hither_core::Listing> {
        Ok(vec![
            DirEntry::new(format!("{path}/d"), FileKind::Directory, 0),
            DirEntry::new(format!("{path}/f"), FileKind::File, 1),
        ]
        .into())
    }
    fn source(&self, _: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(OneByte(Arc::clone(&self.0))))
    }
}

/// A directory whose stream breaks off after each name, after which the directory may be gone.
#[derive(Debug, Default)]
struct Breaking {
    is_gone: bool,
    /// The names after which the walk was resumed.
    asked: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct OneEvent(Option<TreeEvent>, bool);

#[async_trait]
impl TreeEvents for OneEvent {
    async fn next(&mut self) -> Result<Vec<TreeEvent>> {
        match self.0.take() {
            Some(event) => Ok(vec![event]),
            None if self.1 => Ok(Vec::new()),
            None => Err(Error::new(ErrorKind::Unavailable, "the connection was closed")
                .with_failure(Failure::Interrupted(Delivery::Sent))),
        }
    }
}

#[async_trait]
impl Storage for Breaking {
    fn name(&self) -> String {
        "breaking:".to_owned()
    }
    async fn stat(&self, path: &str) -> Result<DirEntry> {
        Ok(DirEntry::new(path, FileKind::Directory, 0))
    }
    fn source(&self, _: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(OneByte(Arc::default())))
    }
    async fn tree(&self, _: &str, request: TreeRequest) -> Result<Option<Box<dyn TreeEvents>>> {
        let TreeRequest::Walk { after } = request else { return Ok(None) };
        self.asked.lock().unwrap().push(after.clone());
        let event = match &*after {
            "" => TreeEvent::Directory("a".to_owned()),
            _ if self.is_gone => return Ok(None),
            _ => TreeEvent::LeftOut("a/link".to_owned(), "a link".to_owned()),
        };
        let is_last = matches!(event, TreeEvent::LeftOut(..));
        Ok(Some(Box::new(OneEvent(Some(event), is_last))))
    }
}

/// All events of a walk.
async fn walked(storage: &Breaking) -> Result<Vec<TreeEvent>> {
    let policy = RetryPolicy::default();
    let mut walk = ResumedWalk::begin(storage, "tree", &policy, &NoClock).await?.unwrap();
    let mut events = Vec::new();
    loop {
        match walk.next().await? {
            some if some.is_empty() => return Ok(events),
            some => events.extend(some),
        }
    }
}

async fn copied(storage: impl Storage + 'static) -> CopySummary {
    let mut options = CopyOptions::default();
    options.recursive = true;
    let source = CopyPath {
        storage: Arc::new(storage),
        path: "tree".to_owned(),
        local: None,
        is_directory: false,
        contents: false,
    };
    let progress = Arc::new(CopyProgress::default());
    copy(vec![source], Destination::Discard, options, progress).await.unwrap()
}

#[tokio::test]
async fn files_are_copied_while_their_directory_is_listed_which_waits_for_them() {
    let counts = Arc::new(Counts::default());
    let summary = copied(Wide { files: 20_000, counts: Arc::clone(&counts) }).await;
    assert_eq!((summary.files, summary.failures.len()), (20_000, 0));
    assert!(counts.listed_at_first_fetch.load(Ordering::SeqCst) < 20_000);
    let most = counts.most_waiting.load(Ordering::SeqCst);
    assert!(most < 5_000, "{most} names waited");
}

#[tokio::test]
async fn a_tree_without_an_end_is_copied_to_a_depth() {
    let summary = copied(Endless::default()).await;
    assert_eq!(summary.files, 257);
    let failures: Vec<_> = summary.failures.iter().map(|it| it.error.kind()).collect();
    assert_eq!(failures, [ErrorKind::TooLarge]);
    assert!(summary.failures[0].source.ends_with(&"/d".repeat(257)));
}

#[tokio::test]
async fn a_walk_that_breaks_off_continues_after_the_last_name() {
    let storage = Breaking::default();
    let events = walked(&storage).await.unwrap();
    assert!(matches!(&*events, [TreeEvent::Directory(_), TreeEvent::LeftOut(..)]), "{events:?}");
    assert_eq!(*storage.asked.lock().unwrap(), ["", "a/"]);
}

#[tokio::test]
async fn a_walk_of_a_directory_that_is_removed_meanwhile_is_no_whole_one() {
    let error = walked(&Breaking { is_gone: true, ..Breaking::default() }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    assert!(error.to_string().contains("no longer a directory"), "{error}");
}

//! Scans whose responses end late.

use super::*;
use crate::{Client, ClientConfig};
use futures_util::future::ready;
use hither_core::source::{PartSink, ResponseMeta};
use hither_core::{Clock, Endpoint, Limits, LinkEstimate, Request, Source};
use hither_testkit::root_writer::samples::floats;
use hither_testkit::root_writer::{Style, Tree as WrittenTree, write};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// A file each of whose responses shows at its end, after a result was accepted, that the file has
/// changed.
#[derive(Debug)]
struct LateChange {
    file: Arc<dyn Source>,
    accepted: Arc<Notify>,
}

impl Source for LateChange {
    fn name(&self) -> String {
        self.file.name()
    }
    fn limits(&self) -> Limits {
        self.file.limits()
    }
    fn link(&self) -> LinkEstimate {
        self.file.link()
    }
    fn clock(&self) -> &dyn Clock {
        self.file.clock()
    }
    fn endpoint(&self) -> Endpoint {
        self.file.endpoint()
    }
    fn max_connections(&self) -> usize {
        1
    }
    fn idle_connections(&self) -> usize {
        1
    }
    fn preconnect(&self, _: usize) {}
    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        async move {
            self.file.fetch(request, sink).await?;
            self.accepted.notified().await;
            Err(Error::new(ErrorKind::Changed, "the file is longer"))
        }
        .boxed()
    }
}

#[test]
fn a_change_that_the_end_of_the_last_response_shows_fails_the_scan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.root");
    let branches = vec![floats("x", &[&[1.0, 2.0]], false)];
    let tree = WrittenTree { path: "T", cycle: 1, branches };
    std::fs::write(&path, write(Style::default(), &[tree])).unwrap();
    let client = Client::new(ClientConfig::default()).unwrap();
    let tree = client.open_tree(path.to_str().unwrap(), Some("T")).unwrap();
    let open = client.block_on(tree.opened()).unwrap();
    let accepted = Arc::new(Notify::new());
    let source =
        LateChange { file: Arc::clone(&tree.file.source), accepted: Arc::clone(&accepted) };
    let mut file = FileOrigin::clone(&tree.file);
    file.source = Arc::new(source);
    let progress = ScanProgress::default();
    let columns = vec!["x".to_owned()];
    let scan = Scan {
        file: &file,
        open: &open,
        columns,
        entries: 0..2,
        step_entries: None,
        progress: &progress,
    };
    let results = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&results);
    let scanned = client.block_on(scan.run(
        |chunk| Ok(chunk.entries.end),
        move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            accepted.notify_one();
            ready(Ok(())).boxed()
        },
    ));
    assert_eq!(scanned.unwrap_err().kind(), ErrorKind::Changed);
    assert_eq!(results.load(Ordering::Relaxed), 1);
}

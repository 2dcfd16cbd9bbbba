//! Uploads: small ones are seen at the server.

use crate::local::place;
use hither_core::ErrorKind;
use hither_testkit::mock_http::webdav::{ChangeFault, MockWebDavServer, SizesTold};
use hither_transfer::{CopyOptions, CopyPath, CopySummary, Destination, copy};
use hither_transport::{Location, Network, TransportConfig, WebDavStorage};
use std::fs;
use std::sync::Arc;
use tokio::runtime::Handle;

const FILES: usize = 20;
const BYTES: usize = 1000;

/// A copy of small files to a WebDAV server.
async fn sent(server: &MockWebDavServer, files: usize) -> CopySummary {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..files {
        fs::write(tree.join(format!("file-{number}")), vec![b'x'; BYTES]).unwrap();
    }
    let network = Network::new(TransportConfig::default(), Handle::current(), None);
    let root = Location::parse(&server.url_of("/d/")).unwrap();
    let storage = Arc::new(WebDavStorage::new(root, network));
    let path = "tree".to_owned();
    let target = CopyPath { storage, path, local: None, is_directory: false, contents: false };
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.journal = Some(folder.path().join("journal"));
    let destination = Destination::Place(target);
    copy(vec![place(&tree)], destination, options, Arc::default()).await.unwrap()
}

#[tokio::test]
async fn small_uploads_are_seen_by_one_listing_or_a_few_questions() {
    for (files, looks) in [(FILES, 1), (2, 2), (1, 1)] {
        let server = MockWebDavServer::start(None).unwrap();
        let summary = sent(&server, files).await;
        assert!(summary.failures.is_empty(), "{:?}", summary.failures);
        assert_eq!(summary.files, files as u64);
        let log = server.log();
        let last_change = log.iter().rposition(|(method, _)| method == "MOVE").unwrap();
        let after = log.len() - 1 - last_change;
        let counts = ["PUT", "MOVE"].map(|method| server.count(method));
        assert_eq!((counts, after), ([files, files], looks), "{log:?}");
    }
}

#[tokio::test]
async fn small_uploads_whose_sizes_are_not_listed_are_asked_for_by_get() {
    for (sizes, failures) in [(SizesTold::ByGet, 0), (SizesTold::Never, FILES)] {
        let server = MockWebDavServer::start(None).unwrap();
        server.tell_sizes(sizes);
        let summary = sent(&server, FILES).await;
        let kinds = summary.failures.iter().map(|failure| failure.error.kind());
        assert!(kinds.clone().all(|kind| kind == ErrorKind::Corrupt), "{:?}", summary.failures);
        assert_eq!((kinds.count(), server.count("GET")), (failures, FILES), "{sizes:?}");
        assert_eq!(summary.files, (FILES - failures) as u64, "{sizes:?}");
    }
}

#[tokio::test]
async fn small_uploads_that_are_stored_in_part_fail() {
    for files in [1, FILES] {
        let server = MockWebDavServer::start(Some(("PUT", ChangeFault::Half))).unwrap();
        let summary = sent(&server, files).await;
        assert_eq!((summary.files, summary.bytes, summary.failures.len()), (0, 0, files));
        for failure in &summary.failures {
            assert_eq!(failure.error.kind(), ErrorKind::Corrupt, "{}", failure.error);
        }
    }
}

//! Files that end too early.

use crate::support::rig::{client, draw, file};
use hither::{DrawRequest, ErrorKind, ScanProgress, TreeUrl};
use hither_testkit::mock_http::MockHttpServer;
use hither_testkit::root_writer::samples::mixed;
use hither_testkit::root_writer::{Style, write};

#[test]
fn a_file_that_is_truncated_anywhere_is_corrupt() {
    let whole = file(0);
    let client = client(1, None);
    let peer = MockHttpServer::start(Vec::new()).unwrap();
    let steps = (0..whole.len()).step_by(whole.len() / 60);
    let near_ends = (0..130).step_by(13).chain(whole.len() - 400..whole.len());
    for len in steps.chain(near_ends.step_by(7)) {
        peer.replace(whole[..len].to_vec(), &format!("\"{len}\""));
        let error = draw(&client, &peer.url()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{len}: {error}");
        assert!(error.to_string().contains(&peer.url()), "{len}: {error}");
    }
}

#[test]
fn every_prefix_of_a_small_file_is_corrupt() {
    let whole = write(Style::default(), &[mixed("T", 1)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.root");
    let client = client(1, None);
    let request = DrawRequest::new("E", None);
    let target = TreeUrl { url: path.display().to_string(), tree: None };
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        let error = client.draw(&target, &request, &ScanProgress::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{len}: {error}");
    }
    std::fs::write(&path, &whole).unwrap();
    let drawing = client.draw(&target, &request, &ScanProgress::default()).unwrap();
    assert_eq!(drawing.histogram.selected, 3);
}

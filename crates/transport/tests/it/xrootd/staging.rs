//! Files on tape of XRootD servers.

use crate::fixture::{content, network};
use hither_core::storage::StagingState;
use hither_testkit::mock_xrootd::{Fault, FaultStage, FaultTrigger, MockXrootdServer};
use hither_transport::{FileLocality, Location, PrepareAction, TransportConfig, XrootdPath};

/// A file, and another file on the same server.
fn files(server: &MockXrootdServer) -> (XrootdPath, Vec<String>) {
    let location = Location::parse(&server.url_of("/data/a")).unwrap();
    let network = network(TransportConfig::default());
    (XrootdPath::new(location, network), vec!["data/b".to_owned()])
}

#[tokio::test]
async fn progress_comes_from_the_plugin_of_the_server() {
    let server = MockXrootdServer::start(content(10)).unwrap();
    let text = r#"{"request_id": "7", "responses": [
        {"path": "/data/b", "online": false, "error_text": "broken tape"},
        {"path": "/data/a", "online": true, "error_text": ""}]}"#;
    server.add_fault(FaultStage::Query, FaultTrigger::Always, Fault::Text(text));
    let (first, further) = files(&server);
    let states = first.staging_progress("7", &further).await.unwrap();
    assert_eq!(states, [StagingState::Online, StagingState::Failed("broken tape".to_owned())]);
}

#[tokio::test]
async fn progress_comes_from_the_status_of_files_where_there_is_no_plugin() {
    let server = MockXrootdServer::start(content(10)).unwrap();
    let (first, further) = files(&server);
    first.prepare(&further, PrepareAction::Stage { priority: 1 }).await.unwrap();
    let online = || vec![StagingState::Online; 2];
    assert_eq!(first.staging_progress("", &further).await.unwrap(), online());
    server.add_fault(FaultStage::Request, FaultTrigger::Always, Fault::Offline);
    let waiting = vec![StagingState::Waiting; 2];
    assert_eq!(first.staging_progress("unknown here", &further).await.unwrap(), waiting);
    assert_eq!(first.localities(&further).await, [FileLocality::Tape; 2]);
    server.clear_faults();
    assert_eq!(first.staging_progress("", &further).await.unwrap(), online());
    assert_eq!(first.localities(&further).await, [FileLocality::Disk; 2]);
    first.cancel_staging("7").await.unwrap();
}

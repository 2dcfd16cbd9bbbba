//! Managers of XRootD clusters, and changing tokens, with mock servers.

use crate::fixture::{LARGE, THREE, content, network, read, with_connections};
use hither_auth::{CredentialConfig, Credentials, TokenSource};
use hither_testkit::mock_http::FaultTrigger;
use hither_testkit::mock_xrootd::{Fault, FaultStage, MockXrootdServer};
use hither_transport::{Location, Network, XrootdSource};
use hither_xrd::wire::{ErrorCode, Redirect};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

fn opens(peer: &MockXrootdServer) -> Vec<String> {
    let opens = peer.log().into_iter().filter(|logged| logged.name == "open");
    opens.filter_map(|logged| logged.path).collect()
}

async fn read_all(network: &Arc<Network>, url: &str) {
    let source = XrootdSource::new(Location::parse(url).unwrap(), Arc::clone(network));
    read(&source, &THREE).await.unwrap().is_exact(&content(LARGE), &THREE).unwrap();
}

fn redirect(to: &MockXrootdServer) -> Redirect {
    Redirect::to("127.0.0.1", to.address().port())
}

/// A manager that redirects every open.
fn manager(redirect: Redirect) -> MockXrootdServer {
    let manager = MockXrootdServer::start(content(LARGE)).unwrap();
    manager.with_fault(FaultStage::Open, FaultTrigger::Always, Fault::Elsewhere(redirect))
}

#[tokio::test]
async fn a_manager_is_asked_once_for_a_directory() {
    let data = MockXrootdServer::start(content(LARGE)).unwrap();
    let manager = manager(redirect(&data));
    let network = network(with_connections(1));
    for path in ["d/a", "d/b", "d/c"] {
        read_all(&network, &manager.url_of(path)).await;
    }
    assert_eq!((opens(&manager).len(), opens(&data).len()), (1, 3));
    read_all(&network, &manager.url_of("e/a")).await;
    assert_eq!((opens(&manager).len(), opens(&data).len()), (2, 4));
}

#[tokio::test]
async fn a_wrong_guess_falls_back_to_the_manager() {
    for code in [ErrorCode::NOT_FOUND, ErrorCode::NOT_AUTHORIZED, ErrorCode::IO_ERROR] {
        let data = MockXrootdServer::start(content(LARGE)).unwrap();
        data.add_fault(FaultStage::Open, FaultTrigger::Nth(1), Fault::Refused(code));
        let manager = manager(redirect(&data));
        let network = network(with_connections(1));
        for path in ["d/a", "d/b", "d/c"] {
            read_all(&network, &manager.url_of(path)).await;
        }
        let asked = opens(&manager);
        assert_eq!((asked.len(), opens(&data).len()), (2, 4), "{code}");
        // A server that only lacks a file is not avoided in later requests.
        assert_eq!(asked[1].contains("tried=127.0.0.1"), code != ErrorCode::NOT_FOUND, "{asked:?}");
    }
}

#[tokio::test]
async fn a_server_that_died_is_forgotten() {
    let first = MockXrootdServer::start(content(LARGE)).unwrap();
    let second = MockXrootdServer::start(content(LARGE)).unwrap();
    let manager = MockXrootdServer::start(content(LARGE)).unwrap();
    manager.add_fault(FaultStage::Open, FaultTrigger::Nth(0), Fault::Elsewhere(redirect(&first)));
    manager.add_fault(FaultStage::Open, FaultTrigger::From(1), Fault::Elsewhere(redirect(&second)));
    let network = network(with_connections(1));
    read_all(&network, &manager.url_of("d/a")).await;
    drop(first);
    for path in ["d/b", "d/c"] {
        read_all(&network, &manager.url_of(path)).await;
    }
    assert_eq!((opens(&manager).len(), opens(&second).len()), (2, 2));
}

#[tokio::test]
async fn a_manager_may_name_a_dead_server_until_it_has_noticed() {
    let dead = MockXrootdServer::start(content(LARGE)).unwrap();
    let data = MockXrootdServer::start(content(LARGE)).unwrap();
    let manager = MockXrootdServer::start(content(LARGE)).unwrap();
    manager.add_fault(FaultStage::Open, FaultTrigger::Before(6), Fault::Elsewhere(redirect(&dead)));
    manager.add_fault(FaultStage::Open, FaultTrigger::From(6), Fault::Elsewhere(redirect(&data)));
    let network = network(with_connections(1));
    let location = Location::parse(&manager.url_of("d/a")).unwrap();
    let source = XrootdSource::new(location, network);
    read(&source, &THREE).await.unwrap();
    drop(dead);
    // What was open there, and the first refusal, are for the caller to repeat.
    let mut failed = 0;
    while read(&source, &THREE).await.is_err() {
        failed += 1;
        assert!(failed <= 2, "{:?}", opens(&manager));
    }
    assert_eq!((opens(&manager).len(), opens(&data).len()), (7, 1));
}

#[tokio::test]
async fn opaque_information_of_a_redirect_is_for_its_file_only() {
    let data = MockXrootdServer::start(content(LARGE)).unwrap();
    let mut redirect = redirect(&data);
    redirect.opaque = Some("cap=secret".to_owned());
    let manager = manager(redirect);
    let network = network(with_connections(1));
    for path in ["d/a", "d/b"] {
        read_all(&network, &manager.url_of(path)).await;
    }
    assert_eq!((opens(&manager).len(), opens(&data).len()), (2, 2));
    assert!(opens(&data).iter().all(|path| path.contains("cap=secret")));
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn a_token_that_was_renewed_in_its_file_is_sent_with_the_next_open() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    private(&file, "one");
    let peer = MockXrootdServer::start(content(LARGE)).unwrap();
    peer.add_fault(
        FaultStage::Open,
        FaultTrigger::Nth(1),
        Fault::Refused(ErrorCode::NOT_AUTHORIZED),
    );
    let mut credentials = CredentialConfig::default();
    credentials.token = Some(TokenSource::File(file.clone()));
    credentials.uid = std::fs::metadata(&file).unwrap().uid();
    let mut config = with_connections(1);
    config.credentials = Credentials::new(credentials);
    let network = network(config);
    read_all(&network, &peer.url_of("a")).await;
    private(&file, "two");
    for path in ["b", "c"] {
        read_all(&network, &peer.url_of(path)).await;
    }
    let shown: Vec<_> = opens(&peer)
        .iter()
        .map(|path| path.split("Bearer%20").nth(1).unwrap_or_default().to_owned())
        .collect();
    assert_eq!(shown, ["one", "one", "two", "two"]);
}

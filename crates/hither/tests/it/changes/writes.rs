//! Writes of files from memory.

use crate::support::rig::client;
use bytes::Bytes;
use hither::{ErrorKind, Replaceable};
use hither_testkit::mock_http::webdav::{
    ChangeFault, MockWebDavServer, PlannedFault, WebDavBehaviour, WebDavFault,
};

#[test]
fn a_file_that_the_server_has_lost_is_not_the_one_that_was_there_before() {
    let fault = WebDavFault::Change(ChangeFault::DroppedAndRemoved);
    let faults = vec![PlannedFault { method: "MOVE", nth: 0, times: 1, fault }];
    let server = MockWebDavServer::behaving(WebDavBehaviour::default(), faults).unwrap();
    server.store("/d/file", b"old");
    let client = client(1, None);
    let url = server.url_of("/d/file");
    let put = |bytes: &'static [u8]| {
        let bytes = Bytes::from_static(bytes);
        client.block_on(client.put(&url, bytes, Replaceable::Any))
    };
    let error = put(b"new").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("/d/file: the server has adler32:"), "{error}");
    put(b"new").unwrap();
    assert_eq!(server.bytes("/d/file").unwrap(), b"new");
}

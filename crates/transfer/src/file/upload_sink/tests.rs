use super::*;
use crate::copy::context::CopyContext;
use crate::copy::tests::memory::{Behaviour, MemoryServer};
use crate::copy::tests::scripted::{CONTENT, context, entry};
use crate::file::blocks::piece_buffer::WriteBatch;
use crate::file::open::{OpenResult, open};
use crate::file::write::write;
use crate::options::{CopyOptions, Verify};
use bytes::Bytes;
use std::sync::Arc;

/// Bytes of a block.
const BLOCK: u64 = 4;

fn crc32c(bytes: &[u8]) -> Checksum {
    Hasher::of(Algorithm::Crc32c, bytes)
}

/// The records of an attempt that has uploaded all of [`CONTENT`], with the token `t`.
fn known() -> Option<Known> {
    let blocks = BTreeMap::from([(0, (4, crc32c(b"cont"))), (4, (3, crc32c(b"ent")))]);
    Some(Known { part: Some("t".to_owned()), blocks, ..Known::default() })
}

/// Begins an upload of a local file with this content, after an attempt that left [`known`].
/// Returns the starts of the blocks that are there, and true if the journal needs a new record.
async fn resumed(shared: &CopyContext, server: &MemoryServer, content: &[u8]) -> (Vec<u64>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let local = folder.path().join("from");
    std::fs::write(&local, content).unwrap();
    let mut source = server.path("from");
    source.local = Some(local);
    let item = CopyItem::new(source, Some(entry(content.len())), server.target("f"));
    let options = PutOptions { size: content.len() as u64, ..PutOptions::default() };
    let sums = (shared.resources.options.verify.algorithm(), BLOCK);
    let begun = whole(&shared.resources, &item, server, "f", options, known(), sums).await;
    let (_, blocks, is_new) = begun.unwrap();
    (blocks.whole_blocks().into_keys().collect(), is_new)
}

#[tokio::test]
async fn blocks_that_the_local_file_still_has_are_not_uploaded_again() {
    let server = MemoryServer::new(Behaviour { token: Some("t"), ..Behaviour::default() }, &[]);
    let shared = context(CopyOptions::default());
    assert_eq!(resumed(&shared, &server, CONTENT).await, (vec![0, 4], false));
    assert_eq!(shared.results().summary().bytes_resumed, 7);
    assert_eq!(resumed(&shared, &server, b"contENT").await, (vec![0], false));
    assert_eq!(server.requests(), ["put f again t", "put f again t"]);
}

#[tokio::test]
async fn an_upload_that_the_server_does_not_know_any_more_begins_anew() {
    let server = MemoryServer::new(Behaviour { token: Some("u"), ..Behaviour::default() }, &[]);
    let shared = context(CopyOptions::default());
    assert_eq!(resumed(&shared, &server, CONTENT).await, (vec![], true));
    let summary = shared.results().summary();
    let notice = "memory:/f: the upload of an earlier attempt is gone: begun anew";
    assert_eq!((&*summary.notices, summary.bytes_resumed), (&[notice.to_owned()][..], 0));
}

#[tokio::test]
async fn nothing_is_resumed_where_a_checksum_was_requested() {
    let server = MemoryServer::new(Behaviour { token: Some("t"), ..Behaviour::default() }, &[]);
    let verify = Verify::Algorithm(Algorithm::Adler32);
    let shared = context(CopyOptions { verify, ..CopyOptions::default() });
    assert_eq!(resumed(&shared, &server, CONTENT).await, (vec![], true));
    assert_eq!(server.requests(), ["put f"]);
}

/// Uploads both blocks of [`CONTENT`] to `server`.
async fn uploaded(shared: &CopyContext, server: &MemoryServer) -> Arc<FileCopy> {
    let item = CopyItem::new(server.path("from"), Some(entry(CONTENT.len())), server.target("f"));
    let Ok(OpenResult::File(file)) = open(&shared.resources, item, None).await else {
        panic!("it is not opened")
    };
    written(&file, 0, b"cont").await;
    written(&file, 4, b"ent").await;
    server.requests();
    file
}

async fn written(file: &Arc<FileCopy>, offset: u64, bytes: &'static [u8]) {
    let batch =
        WriteBatch { offset, pieces: vec![Bytes::from_static(bytes)], bytes: bytes.len() as u64 };
    file.hold(batch.bytes);
    write(Arc::clone(file), batch).await.unwrap();
}

fn in_blocks() -> Arc<CopyContext> {
    context(CopyOptions { block_bytes: BLOCK, ..CopyOptions::default() })
}

/// A server that loses `lost` when all bytes have arrived.
fn loses(lost: Range<usize>) -> Behaviour {
    Behaviour { loses: Some(("write f 4..7", lost)), shows_written: true, ..Behaviour::default() }
}

#[tokio::test]
async fn blocks_before_an_interruption_are_read_back_and_lost_ones_uploaded_again() {
    let server = MemoryServer::new(loses(0..2), &[]);
    let shared = in_blocks();
    let file = uploaded(&shared, &server).await;
    assert_eq!(verify_unverified(&file).await.unwrap(), 4);
    assert_eq!(server.requests(), ["read f.part 0..4", "read f.part 4..7"]);
    assert_eq!(file.blocks.whole_blocks().into_keys().collect::<Vec<_>>(), [4]);
    let notices = shared.results().summary().notices.clone();
    assert_eq!(notices, ["memory:/f: the server had lost 4 bytes: uploaded again"]);
    written(&file, 0, b"cont").await;
    assert_eq!(verify_unverified(&file).await.unwrap(), 0);
    assert_eq!(server.requests(), ["write f 0..4"]);
}

#[tokio::test]
async fn nothing_is_read_back_without_need() {
    let uninterrupted = Behaviour { loses: None, ..loses(0..0) };
    // The server has lost nothing, and its checksum shows that.
    let stated = Behaviour { states_checksums: true, ..loses(0..0) };
    for behaviour in [uninterrupted, stated] {
        let server = MemoryServer::new(behaviour, &[]);
        let file = uploaded(&in_blocks(), &server).await;
        assert_eq!(verify_unverified(&file).await.unwrap(), 0);
        assert_eq!(server.requests(), [""; 0]);
    }
}

#[tokio::test]
async fn bytes_that_cannot_be_read_back_are_noted() {
    let server = MemoryServer::new(Behaviour { shows_written: false, ..loses(0..2) }, &[]);
    let shared = in_blocks();
    let file = uploaded(&shared, &server).await;
    assert_eq!(verify_unverified(&file).await.unwrap(), 0);
    let notices = shared.results().summary().notices.clone();
    assert_eq!(notices, ["memory:/f: 7 bytes that went before an interruption are not verified"]);
}

#[tokio::test]
async fn a_range_of_an_upload_that_is_gone_leaves_no_other_upload_behind() {
    for (token, is_there) in [("t", true), ("u", false)] {
        let behaviour = Behaviour { token: Some(token), ..Behaviour::default() };
        let server = MemoryServer::new(behaviour, &[]);
        let part = UploadRange { range: 4..7, token: "t".to_owned() };
        let options = PutOptions { size: 7, ..PutOptions::default() };
        let begun = range(&server, "f", options, &part, BLOCK).await;
        let error = begun.err().map(|error| error.kind());
        assert_eq!(error, (!is_there).then_some(ErrorKind::NotFound));
        let expected = ["put f again t", "abort f"];
        assert_eq!(server.requests(), expected[..if is_there { 1 } else { 2 }]);
    }
}

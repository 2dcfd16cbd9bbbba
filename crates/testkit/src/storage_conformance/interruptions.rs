//! Resumption of interrupted uploads.

use super::expectation::good;
use super::{content, names, options, read, write};
use hither_core::storage::{PutOptions, Storage, partial_name};

pub(super) async fn uploads_are_gone_on_with(storage: &dyn Storage) {
    let bytes = content(12_000_000, 4);
    let partial = Some(partial_name(1));
    let whole = PutOptions { partial, ..options(bytes.len(), false) };
    let upload = good(storage.put("file", whole.clone()).await, "put");
    let block = usize::try_from(upload.block_bytes()).unwrap_or(1).max(1);
    let half = 6_000_000 / block * block;
    assert!(half > 0, "blocks are {block} bytes long");
    write(&*upload, &bytes, 0..half).await;
    let token = upload.token();
    assert!(token.is_some(), "no token");
    // This has the effect of the end of the process.
    drop(upload);
    let resume = PutOptions { resume: token.clone(), ..whole };
    let upload = good(storage.put("file", resume.clone()).await, "put again");
    assert_eq!(upload.token(), token, "the token is of no use");
    write(&*upload, &bytes, half..bytes.len()).await;
    good(upload.commit(None).await, "commit");
    assert!(read(storage, "file", bytes.len() as u64).await == bytes, "the halves do not fit");
    good(storage.remove("file").await, "remove");
    // The upload is complete: its token has no effect.
    for resume in [PutOptions { size: 5, ..resume.clone() }, resume] {
        let upload = good(storage.put("file", resume).await, "put with an old token");
        assert_ne!(upload.token(), token, "the old token is believed");
        good(upload.abort().await, "abort");
    }
    an_aborted_upload_begins_anew(storage, &bytes).await;
    // The rest of a longer file must not be used for a shorter one.
    let upload = good(storage.put("file", options(bytes.len(), false)).await, "put");
    write(&*upload, &bytes, 0..bytes.len()).await;
    let token = upload.token();
    let longer = upload;
    let short = bytes.len() - 1;
    let resume = PutOptions { resume: token, ..options(short, false) };
    let upload = good(storage.put("file", resume).await, "put with the token of a longer file");
    write(&*upload, &bytes, 0..short).await;
    good(upload.commit(None).await, "commit");
    assert_eq!(good(storage.stat("file").await, "stat").size, Some(short as u64));
    good(storage.remove("file").await, "remove");
    // A caller that resumed it to its end leaves nothing to abort.
    drop(longer.abort().await);
    let resume = PutOptions { resume: Some("../file".to_owned()), ..options(5, false) };
    let upload = good(storage.put("file", resume).await, "put with a token from elsewhere");
    good(upload.abort().await, "abort");
    assert_eq!(names(storage, "").await, [""; 0]);
}

/// As if another client, or a rule of the store, aborts the upload.
async fn an_aborted_upload_begins_anew(storage: &dyn Storage, bytes: &[u8]) {
    let upload = good(storage.put("file", options(bytes.len(), false)).await, "put");
    let block = usize::try_from(upload.block_bytes()).unwrap_or(1).max(1);
    let half = 6_000_000 / block * block;
    write(&*upload, bytes, 0..half).await;
    let resume = PutOptions { resume: upload.token(), ..options(bytes.len(), false) };
    good(upload.abort().await, "abort");
    let upload = good(storage.put("file", resume.clone()).await, "put again");
    assert_ne!(upload.token(), resume.resume, "the token of an aborted upload is believed");
    write(&*upload, bytes, 0..bytes.len()).await;
    good(upload.commit(None).await, "commit");
    assert!(read(storage, "file", bytes.len() as u64).await == bytes, "not what was written");
    good(storage.remove("file").await, "remove");
}

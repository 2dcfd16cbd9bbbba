use super::super::{TreeWriter, check_path};
use super::*;
use proptest::prelude::*;
use std::time::{Duration, UNIX_EPOCH};

fn entry(path: &str, size: u64) -> TreeEntry {
    let modified = Some(UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789));
    let etag = "\"1-2\"".to_owned();
    TreeEntry {
        path: path.to_owned(),
        size,
        modified,
        mode: Some(0o644),
        etag,
        ..Default::default()
    }
}

/// The records of a body that arrives in pieces of `step` bytes, contents joined.
fn read(body: &[u8], step: usize) -> Result<Vec<TreeRecord>, TreeError> {
    let mut reader = TreeReader::default();
    let mut records = Vec::new();
    for piece in body.chunks(step) {
        let mut piece = Bytes::copy_from_slice(piece);
        while let Some(record) = reader.next(&mut piece)? {
            records.push(match record {
                TreeRecord::Content(entry, pieces) => {
                    TreeRecord::Content(entry, vec![Bytes::from(pieces.concat())])
                }
                other => other,
            });
        }
        assert!(piece.is_empty());
    }
    reader.finish().map(|()| records)
}

fn content(writer: &mut TreeWriter, path: &str, bytes: &[u8], out: &mut Vec<u8>) {
    let entry = entry(path, bytes.len() as u64);
    let write = |out: &mut Vec<u8>| {
        out.extend_from_slice(bytes);
        Ok::<_, ()>(())
    };
    writer.content(&entry, out, write).unwrap();
}

fn sample() -> (Vec<u8>, Vec<TreeRecord>) {
    let mut out = Vec::new();
    let mut writer = TreeWriter::default();
    writer.directory(&entry("run", 0), &mut out);
    writer.file(&entry("run/large", 1 << 40), &mut out);
    content(&mut writer, "run/small", b"bytes", &mut out);
    content(&mut writer, "run/none", b"", &mut out);
    writer.stored(&TreeEntry { replaced: true, ..entry("run/new", 7) }, &mut out);
    writer.failed("run/secret", 403, "not for you", &mut out);
    writer.left_out("run/pipe", "a pipe", &mut out);
    writer.end(&mut out);
    let bytes = |bytes: &'static [u8]| vec![Bytes::from_static(bytes)];
    let failed = (403, "not for you".to_owned());
    let records = vec![
        TreeRecord::Directory(entry("run", 0)),
        TreeRecord::File(entry("run/large", 1 << 40)),
        TreeRecord::Content(entry("run/small", 5), bytes(b"bytes")),
        TreeRecord::Content(entry("run/none", 0), bytes(b"")),
        TreeRecord::Stored(TreeEntry { replaced: true, ..entry("run/new", 7) }),
        TreeRecord::Failed { path: "run/secret".to_owned(), status: failed.0, reason: failed.1 },
        TreeRecord::LeftOut { path: "run/pipe".to_owned(), reason: "a pipe".to_owned() },
    ];
    (out, records)
}

#[test]
fn records_come_out_as_they_went_in_however_cut() {
    let (body, records) = sample();
    for step in 1..body.len() + 1 {
        assert_eq!(read(&body, step), Ok(records.clone()), "pieces of {step} bytes");
    }
}

#[test]
fn one_flipped_bit_and_every_truncation_is_seen() {
    let (body, _) = sample();
    for bit in 0..body.len() * 8 {
        let mut damaged = body.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&damaged, 1000).is_err(), "bit {bit}");
    }
    for length in 0..body.len() {
        assert!(matches!(read(&body[..length], 1000), Err(TreeError::Truncated { .. })));
    }
    assert_eq!(read(&[&body[..], b"D"].concat(), 7), Err(TreeError::AfterEnd));
}

#[test]
fn a_stream_that_lacks_whole_records_states_other_numbers() {
    let mut out = Vec::new();
    let mut writer = TreeWriter::default();
    writer.file(&entry("a", 1), &mut out);
    let first = out.len();
    writer.file(&entry("b", 1), &mut out);
    writer.end(&mut out);
    let counted = TreeError::Miscounted { records: 1, bytes: 0 };
    assert_eq!(read(&out[first..], 100), Err(counted));
}

#[test]
fn hostile_paths_and_sizes_are_refused() {
    for path in ["..", "../x", "a/../../x", "/etc/passwd", "a//b", "", "a\0b", "a/."] {
        let mut out = Vec::new();
        TreeWriter::default().file(&entry(path, 1), &mut out);
        assert_eq!(read(&out, 100), Err(TreeError::Invalid { record: 0 }), "{path:?}");
        let mut out = Vec::new();
        TreeWriter::default().failed(path, 404, "", &mut out);
        assert_eq!(read(&out, 100), Err(TreeError::Invalid { record: 0 }), "{path:?}");
    }
    for head in [[b'C', 0, 0, 1, 0, 0x20, 0, 0], [b'F', 0xff, 0, 0, 0, 0, 0, 0]] {
        let error = read(&[&head[..], &[0; 4]].concat(), 100);
        assert_eq!(error, Err(TreeError::TooLarge { record: 0 }));
    }
    let mut out = Vec::new();
    let large = vec![0; 1 + (1 << 20)];
    let write = |out: &mut Vec<u8>| {
        out.extend_from_slice(&large);
        Ok::<_, ()>(())
    };
    let mut writer = TreeWriter::default();
    let too_large = writer.content(&entry("a", large.len() as u64), &mut out, write);
    assert!(too_large == Err(None) && out.is_empty());
    let short = writer.content(&entry("a", 3), &mut out, |_| Ok::<_, ()>(()));
    assert!(short == Err(None) && out.is_empty());
}

proptest! {
    #[test]
    fn contents_round_trip(
        files in prop::collection::vec(("[a-z]{1,9}(/[a-zä]{1,9}){0,3}", prop::collection::vec(any::<u8>(), 0..60)), 0..9),
        step in 1..90usize,
    ) {
        let mut out = Vec::new();
        let mut writer = TreeWriter::default();
        for (path, bytes) in &files {
            content(&mut writer, path, bytes, &mut out);
        }
        writer.end(&mut out);
        let came = read(&out, step).unwrap();
        prop_assert_eq!(came.len(), files.len());
        for (record, (path, bytes)) in came.into_iter().zip(files) {
            let expected = entry(&path, bytes.len() as u64);
            prop_assert_eq!(record, TreeRecord::Content(expected, vec![Bytes::from(bytes)]));
        }
    }

    #[test]
    fn paths_that_pass_lead_nowhere_else(path in "[a./\\x00]{0,12}") {
        if check_path(&path) {
            prop_assert!(!path.is_empty() && !path.starts_with('/') && !path.ends_with('/'));
            prop_assert!(path.split('/').all(|name| !matches!(name, "" | "." | "..")));
        }
    }
}

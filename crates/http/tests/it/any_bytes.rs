//! What holds for any bytes at all: for the fuzz targets, and for the replay of their seeds.

use crate::parts;
use bytes::Bytes;
use hither_http::metalink::{self, LOWEST_PRIORITY, Metalink};
use hither_http::{Multipart, propfind};
use http::Uri;

/// A line with the boundary, then a body: no piece of it comes out otherwise because it was fed in other pieces.
pub(crate) fn multipart(data: &[u8]) {
    let (boundary, body) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (&b"b"[..], data),
    };
    if Multipart::new(boundary).is_err() {
        return;
    }
    let (whole, ended) = parts::read(boundary, body, &[]);
    let cuts: Vec<usize> = (0..body.len()).step_by(1 + body.len() / 50).collect();
    assert_eq!(parts::read(boundary, body, &cuts), (whole, ended));
    // Nor is anything kept of what comes out: only text waits for its end.
    let mut parser = Multipart::new(boundary).unwrap();
    let mut piece = Bytes::copy_from_slice(body);
    while let Ok(Some(_)) = parser.next(&mut piece) {}
}

/// A document: what is read of it is within bounds, sorted and absolute.
pub(crate) fn metalink(data: &[u8]) {
    let bounds = metalink::Bounds::default();
    let Ok(metalink) = Metalink::parse(data, &bounds) else { return };
    assert!(metalink.files.len() <= bounds.max_files);
    for file in &metalink.files {
        assert!(file.replicas.len() <= bounds.max_replicas);
        assert!(file.replicas.is_sorted_by_key(|replica| replica.priority));
        assert!(metalink.file(&file.name).is_some());
        for replica in &file.replicas {
            assert!((1..=LOWEST_PRIORITY).contains(&replica.priority));
            assert!(replica.url.contains("://") && !replica.url.contains(['\n', ' ']));
        }
        for digest in &file.digests {
            assert_eq!(digest.value.len(), digest.algorithm.width());
        }
    }
}

/// A listing: names are below what was asked for.
pub(crate) fn propfind(data: &[u8]) {
    let asked = Uri::from_static("http://127.0.0.1:8471/data/");
    let Ok(found) = propfind::parse(data, &asked, &propfind::Bounds::default()) else { return };
    for resource in found {
        let mut names = resource.path.split('/');
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        assert!(resource.path.is_empty() || names.all(is_name), "{resource:?}");
    }
}

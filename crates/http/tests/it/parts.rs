//! Reads a whole body in given pieces and collects what comes out.

use bytes::Bytes;
use hither_http::{MultipartError, MultipartEvent, MultipartReader};
use std::ops::Range;

/// The content of a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Range, stated size and bytes of every part, in order of arrival.
    pub(crate) parts: Vec<(Range<u64>, Option<u64>, Vec<u8>)>,
    /// The closing delimiter came.
    pub(crate) ended: bool,
}

/// Reads `body` cut before each of the positions `cuts`; returns the parts before an error, and the
/// result.
///
/// Panics if the reader breaks its own promises: data outside a part or out of order, a part that
/// ends early.
pub(crate) fn read(
    boundary: &[u8],
    body: &[u8],
    cuts: &[usize],
) -> (Parts, Result<(), MultipartError>) {
    let mut parser = MultipartReader::new(boundary).unwrap();
    let mut found = Parts::default();
    let mut open: Option<(Range<u64>, Option<u64>, Vec<u8>)> = None;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
    cuts.extend([0, body.len()]);
    cuts.sort_unstable();
    for cut in cuts.windows(2) {
        let mut piece = Bytes::copy_from_slice(&body[cut[0]..cut[1]]);
        let whole = piece.clone();
        // Every event but PartEnd and End takes at least one byte.
        for _ in 0..=3 * whole.len() + 2 {
            let event = match parser.next(&mut piece) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(parser.finish(), Err(error.clone()), "an error is final");
                    assert_eq!(parser.next(&mut Bytes::from_static(b"--b--")), Err(error.clone()));
                    return (found, Err(error));
                }
            };
            match event {
                MultipartEvent::PartStart { range, total } => {
                    assert!(open.is_none() && !found.ended && !range.is_empty());
                    open = Some((range, total, Vec::new()));
                }
                MultipartEvent::Data { offset, bytes } => {
                    let (range, _, data) = open.as_mut().expect("data within a part");
                    assert_eq!(offset, range.start + data.len() as u64);
                    assert!(!bytes.is_empty());
                    assert!(whole.as_ptr_range().contains(&bytes.as_ptr()), "a slice of the piece");
                    data.extend_from_slice(&bytes);
                }
                MultipartEvent::PartEnd => {
                    let part = open.take().expect("a part to end");
                    assert_eq!(part.2.len() as u64, part.0.end - part.0.start);
                    found.parts.push(part);
                }
                MultipartEvent::End => {
                    assert!(open.is_none() && !found.ended);
                    found.ended = true;
                }
            }
        }
        assert!(piece.is_empty(), "a piece is used up before the next");
    }
    (found, parser.finish())
}

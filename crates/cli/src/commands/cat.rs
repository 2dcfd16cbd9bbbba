//! `hither cat`: writes files to the standard output; with `--json`, an object for each to the
//! standard error.

use crate::arguments::Cat;
use crate::exit::CommandError;
use crate::output::standard_streams::standard_output;
use crate::output::{eprint_line, print_notices};
use crate::per_argument::{ArgumentResults, expand};
use hither::{Client, Error, ErrorKind, FileStat};
use hither_transport::redact_url;
use serde_json::json;
use std::io::Write;
use std::ops::Range;

pub(super) fn run(client: &Client, request: &Cat, json: bool) -> Result<(), CommandError> {
    write_all(client, request, json, &mut standard_output()?)
}

/// Writes the files to `output`.
pub(super) fn write_all(
    client: &Client,
    request: &Cat,
    json: bool,
    output: &mut dyn Write,
) -> Result<(), CommandError> {
    let range = request.range.as_deref().map(parse).transpose()?;
    let mut outcome = ArgumentResults::new(false);
    for url in expand(client, &request.urls, |url, error| outcome.failed(url, error)) {
        match write(client, &url, range.as_ref(), output) {
            Ok(written) if json => {
                // The standard output contains the bytes of the file.
                let Written { name, range, bytes } = written;
                let range = [range.start, range.end];
                eprint_line(&json!({ "url": name, "range": range, "bytes": bytes }).to_string());
            }
            Ok(_) => {}
            // The reader of the output has closed it.
            Err(error) if error.kind() == ErrorKind::Cancelled => return Ok(()),
            Err(error) => {
                let error = client.block_on(client.explain_read(&url, error));
                outcome.failed(&redact_url(&url), error.into());
            }
        }
    }
    outcome.end("files")
}

/// The outcome for one file.
struct Written {
    name: String,
    range: Range<u64>,
    bytes: u64,
}

/// Writes a file, or a range of it, to `output`.
fn write(
    client: &Client,
    url: &str,
    wanted: Option<&ByteRange>,
    output: &mut dyn Write,
) -> Result<Written, Error> {
    let file = client.file(url)?;
    let mut written = Written { name: file.name(), range: 0..0, bytes: 0 };
    let written_to_end = match wanted {
        // If the file contains the whole range, its size is not requested.
        Some(ByteRange::Between(range)) => {
            written.range = range.clone();
            let write = |bytes: &[u8]| print(output, bytes, &mut written.bytes);
            file.stream_no_directory(client, url, range.clone(), write)
        }
        _ => Ok(()),
    };
    if let Err(error) = &written_to_end
        && !error.may_be_directory()
    {
        return Err(error.clone());
    }
    if written.range.is_empty() || written_to_end.is_err() {
        let FileStat { size, validator } = file.stat(client)?;
        if validator.is_none() {
            client.block_on(client.check_no_directory(url))?;
        }
        let range = wanted.map_or(Ok(0..size), |wanted| wanted.within(size, &written.name))?;
        // The file contains the whole range: the error has another cause.
        if let (Err(error), true) = (&written_to_end, range == written.range) {
            return Err(error.clone());
        }
        let rest = range.start + written.bytes..range.end;
        written.range = range;
        file.stream(client, rest, |bytes| print(output, bytes, &mut written.bytes))?;
    }
    output.flush().map_err(|error| output_error(&error))?;
    print_notices(&file.replicas().1);
    Ok(written)
}

/// Writes bytes to `output`, and counts them.
fn print(output: &mut dyn Write, bytes: &[u8], written: &mut u64) -> Result<(), Error> {
    *written += bytes.len() as u64;
    output.write_all(bytes).map_err(|error| output_error(&error))
}

fn output_error(error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::BrokenPipe => ErrorKind::Cancelled,
        _ => ErrorKind::Local,
    };
    Error::new(kind, format!("cannot write the output: {error}"))
}

/// The range of `--range`.
#[derive(Debug, PartialEq, Eq)]
enum ByteRange {
    Between(Range<u64>),
    From(u64),
    Last(u64),
}

impl ByteRange {
    /// The part of the range within a file of `size` bytes.
    fn within(&self, size: u64, name: &str) -> Result<Range<u64>, Error> {
        let first = match self {
            Self::Between(range) => range.start,
            Self::From(first) => *first,
            Self::Last(bytes) => size.saturating_sub(*bytes),
        };
        if first >= size {
            let what = format!(
                "{name}: the range begins at byte {first}, expected one in the file, which has {size} bytes"
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let end = match self {
            Self::Between(range) => range.end.min(size),
            Self::From(_) | Self::Last(_) => size,
        };
        Ok(first..end)
    }
}

fn parse(text: &str) -> Result<ByteRange, CommandError> {
    let wrong = || {
        CommandError::usage(format!(
            "--range is {text:?}, expected A-B, A- or -N with A not beyond B"
        ))
    };
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    match (first.trim(), last.trim()) {
        ("", last) => {
            let bytes = Some(number(last)?).filter(|&bytes| bytes > 0);
            bytes.map(ByteRange::Last).ok_or_else(wrong)
        }
        (first, "") => Ok(ByteRange::From(number(first)?)),
        (first, last) => {
            let first = number(first)?;
            let end = number(last)?.checked_add(1);
            let end = end.filter(|&end| first < end).ok_or_else(wrong)?;
            Ok(ByteRange::Between(first..end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_as_in_http() {
        assert_eq!(parse("0-3").unwrap(), ByteRange::Between(0..4));
        assert_eq!(parse("7-").unwrap(), ByteRange::From(7));
        assert_eq!(parse("-5").unwrap(), ByteRange::Last(5));
        for wrong in ["", "-", "3", "4-3", "-0", "a-b", "0-18446744073709551615"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_range_ends_with_the_file_and_begins_in_it() {
        let within = |text| parse(text).unwrap().within(10, "f").ok();
        assert_eq!(within("0-99"), Some(0..10));
        assert_eq!(within("9-"), Some(9..10));
        assert_eq!(within("-99"), Some(0..10));
        assert_eq!((within("10-"), within("10-20")), (None, None));
        assert!(parse("-1").unwrap().within(0, "f").is_err());
    }
}

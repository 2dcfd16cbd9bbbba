//! `hither cat`: writes a file to the standard output; with `--json`, an object to the standard
//! error.

use crate::exit::CommandError;
use crate::output::{eprint_line, print_notices};
use hither::{Client, Error, ErrorKind};
use serde_json::json;
use std::io::Write;
use std::ops::Range;

pub(super) fn run(
    client: &Client,
    url: &str,
    range: Option<&str>,
    json: bool,
) -> Result<(), CommandError> {
    let wanted = range.map_or(Ok(ByteRange::From(0)), parse)?;
    let file = client.file(url)?;
    let range = match wanted {
        ByteRange::Between(range) => range,
        ByteRange::From(first) => first..file.stat(client)?.size,
        ByteRange::Last(bytes) => {
            let size = file.stat(client)?.size;
            size.saturating_sub(bytes)..size
        }
    };
    let mut out = std::io::stdout().lock();
    let mut bytes_written = 0;
    let written = file.stream(client, range.clone(), |bytes| {
        bytes_written += bytes.len();
        out.write_all(bytes).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::BrokenPipe => ErrorKind::Cancelled,
                _ => ErrorKind::Local,
            };
            Error::new(kind, format!("cannot write the output: {error}"))
        })
    });
    print_notices(&file.replicas().1);
    match written {
        Ok(()) => {
            out.flush()?;
            if json {
                // The standard output has the bytes of the file.
                let object = json!({ "url": file.name(), "range": [range.start, range.end], "bytes": bytes_written });
                eprint_line(&object.to_string());
            }
            Ok(())
        }
        // The reader of the output has closed it.
        Err(error) if error.kind() == ErrorKind::Cancelled => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The range of `--range`.
#[derive(Debug, PartialEq, Eq)]
enum ByteRange {
    Between(Range<u64>),
    From(u64),
    Last(u64),
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
        ("", last) => Ok(ByteRange::Last(number(last)?)),
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
        for wrong in ["", "-", "3", "4-3", "a-b", "0-18446744073709551615"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}

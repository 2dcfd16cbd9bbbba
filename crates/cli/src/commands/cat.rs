//! `hither cat`: the bytes themselves; with `--json`, an object on the standard error.

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
    let wanted = range.map_or(Ok(Wanted::From(0)), parse)?;
    let file = client.file(url)?;
    let range = match wanted {
        Wanted::Between(range) => range,
        Wanted::From(first) => first..file.stat(client)?.size,
        Wanted::Last(bytes) => {
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
                // The standard output is the file's.
                let object = json!({ "url": file.name(), "range": [range.start, range.end], "bytes": bytes_written });
                eprint_line(&object.to_string());
            }
            Ok(())
        }
        // Whoever was reading has had enough.
        Err(error) if error.kind() == ErrorKind::Cancelled => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What `--range` asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Between(Range<u64>),
    From(u64),
    Last(u64),
}

fn parse(text: &str) -> Result<Wanted, CommandError> {
    let wrong = || {
        CommandError::usage(format!(
            "--range is {text:?}, expected A-B, A- or -N with A not beyond B"
        ))
    };
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    match (first.trim(), last.trim()) {
        ("", last) => Ok(Wanted::Last(number(last)?)),
        (first, "") => Ok(Wanted::From(number(first)?)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            let end = last.checked_add(1).filter(|&end| first < end).ok_or_else(wrong)?;
            Ok(Wanted::Between(first..end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_as_in_http() {
        assert_eq!(parse("0-3").unwrap(), Wanted::Between(0..4));
        assert_eq!(parse("7-").unwrap(), Wanted::From(7));
        assert_eq!(parse("-5").unwrap(), Wanted::Last(5));
        for wrong in ["", "-", "3", "4-3", "a-b", "0-18446744073709551615"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}

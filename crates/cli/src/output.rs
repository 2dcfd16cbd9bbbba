//! Output of the command: results on the standard output, messages on the standard error.

pub(crate) mod standard_streams;

use hither::{DirEntry, FileKind, StoragePath};
use hither_core::error::counted;
use hither_core::storage::since_1970;
use hither_core::text::{escape_controls, escape_lines};
use serde_json::{Value, json};
use standard_streams::standard_output;
use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Writes lines or JSON to the standard output; characters that control a terminal are escaped. If
/// the reader has gone away, as `head` does, this is not an error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    write(|out| out.write_all(escape_lines(text).as_bytes()))
}

/// Like [`print`], with a function that writes.
pub(crate) fn write(text: impl FnOnce(&mut Stdout) -> io::Result<()>) -> io::Result<()> {
    let mut out = standard_output()?;
    match text(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a message of one line to the standard error, its control characters escaped.
pub(crate) fn eprint_line(line: &str) {
    // If the terminal is gone, the line is lost.
    drop(writeln!(io::stderr(), "{}", escape_controls(line)));
}

/// The number of connections that a job opened, as a phrase after "on".
pub(crate) fn connections(opened: u64) -> String {
    match opened {
        0 => "connections that were open".to_owned(),
        opened => counted(opened, "connection"),
    }
}

/// Writes notices about a job that succeeded to the standard error.
pub(crate) fn print_notices(notices: &[String]) {
    for notice in notices {
        eprint_line(&format!("hither: {notice}"));
    }
}

/// A number of bytes in a readable unit.
pub(crate) fn human_bytes(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// The display form of `path`, which is below the argument `url`: of a local path as it was typed,
/// else as a URL without secrets.
pub(crate) fn named_as(url: &str, named: &StoragePath, path: &str) -> String {
    let below = path.strip_prefix(&*named.path).filter(|_| named.is_local() && !url.contains(':'));
    match below.map(|below| below.trim_start_matches('/')) {
        None => named.display_url(path),
        Some("") => url.to_owned(),
        Some(below) => format!("{}/{below}", url.trim_end_matches('/')),
    }
}

/// The kind of an entry as one word.
pub(crate) fn kind(entry: &DirEntry) -> &'static str {
    match entry.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other | FileKind::Unnamed => "other",
    }
}

/// An entry as JSON.
pub(crate) fn entry_json(named: &StoragePath, entry: &DirEntry) -> Value {
    json!({
        "url": named.display_url(&entry.path),
        "kind": kind(entry),
        "size": entry.size,
        "modified": entry.modified.map(|time| format!("{}Z", date(time).replace(' ', "T"))),
        "validator": entry.validator,
    })
}

/// An array of objects in a JSON object, printed one by one as they are found.
#[derive(Debug)]
pub(crate) struct JsonArray {
    name: &'static str,
    has_begun: AtomicBool,
}

impl JsonArray {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, has_begun: AtomicBool::new(false) }
    }

    /// The text before an object, or before the end.
    fn start(&self, between: &str) -> String {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            return between.to_owned();
        }
        format!("{{\"{}\":[", self.name)
    }

    /// Prints the next object.
    pub(crate) fn push(&self, object: &Value) -> io::Result<()> {
        print(&format!("{}{object}", self.start(",")))
    }

    /// Ends the array, and prints the members of `object` after it.
    pub(crate) fn end(&self, object: &Value) -> io::Result<()> {
        let rest = object.to_string();
        let rest = rest.strip_prefix('{').unwrap_or(&rest);
        print(&format!("{}],{rest}\n", self.start("")))
    }
}

/// A time as `2026-11-21 15:20:04`, in UTC.
pub(super) fn date(time: SystemTime) -> String {
    let (since, _) = since_1970(time);
    let days = since.div_euclid(86_400);
    let seconds = since.rem_euclid(86_400);
    // Years begin in March, in cycles of 400 years, so that a leap day is the last day of its year.
    let shifted = days + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = cycle * 400 + year + carry;
    let hours = seconds / 3600;
    let minutes = seconds / 60 % 60;
    let seconds = seconds % 60;
    format!("{year:04}-{month:02}-{day_of_month:02} {hours:02}:{minutes:02}:{seconds:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::storage::from_1970;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (-631_152_000, "1950-01-01 00:00:00"),
            (-12_219_292_800, "1582-10-15 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (1_709_164_800, "2024-02-29 00:00:00"),
            (1_735_689_599, "2024-12-31 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            let time = from_1970(seconds, 0).unwrap();
            assert_eq!(date(time), text);
        }
    }
}

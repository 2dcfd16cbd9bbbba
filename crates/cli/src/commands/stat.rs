//! `hither stat`: kind, size, date and version.

use super::each::{Outcome, at_once, date, kind, object, shown};
use crate::arguments::Stat;
use crate::exit::Failure;
use hither::{Client, Entry, EntryKind, Error, Named};

pub(super) fn run(client: &Client, request: &Stat, json: bool) -> Result<(), Failure> {
    if let ([url], true) = (&*request.urls, json) {
        let (named, entry) = look(client, url)?;
        super::print(&format!("{}\n", object(&named, &entry)))?;
        return Ok(());
    }
    let mut outcome = Outcome::new(json);
    at_once(
        &request.urls,
        |url| look(client, url),
        |url, looked| {
            match looked {
                Ok((named, entry)) => {
                    outcome.done(&text(&named, &entry), object(&named, &entry))?
                }
                Err(error) => outcome.failed(shown(url), error.into()),
            }
            Ok(())
        },
    )?;
    outcome.end("entries")
}

fn look(client: &Client, url: &str) -> Result<(Named, Entry), Error> {
    let looked = client.run(client.look(url))?;
    super::tell(&looked.notices);
    Ok((looked.named, looked.entry))
}

fn text(named: &Named, entry: &Entry) -> String {
    let mut text = format!("{}\n  kind     {}\n", named.shown(&entry.path), kind(entry));
    if entry.kind == EntryKind::File {
        text += &format!("  size     {} bytes ({})\n", entry.size, super::human(entry.size));
    }
    if let Some(modified) = entry.modified {
        text += &format!("  modified {} UTC\n", date(modified));
    }
    if entry.kind == EntryKind::File {
        text += &format!("  version  {}\n", entry.validator.as_deref().unwrap_or("none given"));
    }
    text
}

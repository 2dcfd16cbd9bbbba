//! `hither stat`: kind, size, date and version.

use super::each::{Outcome, at_once, date, kind, object, shown};
use crate::arguments::Stat;
use crate::exit::Failure;
use hither::{Client, Entry, EntryKind, Error, ErrorKind, Named};

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

/// Asks about the name, and where that is not understood or not allowed, about the file.
fn look(client: &Client, url: &str) -> Result<(Named, Entry), Error> {
    let named = client.named(url)?;
    match client.run(named.storage.stat(&named.path)) {
        Ok(entry) => Ok((named, entry)),
        Err(error) if asks_again(&error) && !named.is_local() => {
            // By a read, which needs nothing but a file, and goes to replicas.
            let read = client
                .file(url)
                .and_then(|file| file.stat(client).map(|stat| (stat, file.places().1)));
            let (stat, notices) = match read {
                Ok(read) => read,
                // The answer to a read has a body, which may say more than the status of a HEAD.
                Err(explained) if says_more(&error, &explained) => return Err(explained),
                Err(_) => return Err(error),
            };
            super::tell(&notices);
            let path = named.path.clone();
            let (kind, size, validator) = (EntryKind::File, stat.size, stat.validator);
            Ok((named, Entry { path, kind, size, modified: None, validator }))
        }
        Err(error) => Err(error),
    }
}

fn says_more(status: &Error, explained: &Error) -> bool {
    status.kind() == ErrorKind::Protocol
        || matches!(explained.kind(), ErrorKind::Unauthenticated | ErrorKind::PermissionDenied)
}

fn asks_again(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Timeout)
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

//! `hither stat`: shows kind, size, date and version.

use crate::arguments::Stat;
use crate::exit::CommandError;
use crate::output::{date, entry_json, human_bytes, kind, print, print_notices};
use crate::per_argument::{ArgumentResults, expand, run_parallel};
use hither::{Client, DirEntry, Error, ErrorKind, ExtendedAttribute, FileKind, StoragePath};
use hither_core::text::escape_controls;
use hither_transport::redact_url;
use serde_json::Value;

pub(crate) fn run(client: &Client, request: &Stat, json: bool) -> Result<(), CommandError> {
    let fetch = |url: &str| fetch(client, url, request.attributes);
    let mut outcome = ArgumentResults::new(json);
    let urls = expand(client, &request.urls, |url, error| outcome.failed(url, error));
    if let ([argument], [url], true) = (&*request.urls, &*urls, json)
        && argument == url
    {
        print(&format!("{}\n", fetch(url)?.object()))?;
        return Ok(());
    }
    run_parallel(
        &urls,
        |url| fetch(url),
        |url, found| {
            match found {
                Ok(found) => outcome.done(&found.text(), found.object())?,
                Err(error) => outcome.failed(&redact_url(url), error.into()),
            }
            Ok(())
        },
    )?;
    outcome.end("entries")
}

/// The metadata of a file or directory, with its attributes if requested.
struct Metadata {
    named: StoragePath,
    entry: DirEntry,
    attributes: Option<Vec<ExtendedAttribute>>,
}

fn fetch(client: &Client, url: &str, attributes: bool) -> Result<Metadata, Error> {
    let (named, entry) = match client.block_on(client.stat(url)) {
        Ok(found) => {
            print_notices(&found.notices);
            (found.named, found.entry)
        }
        // A directory that its server knows only by a URL with a slash.
        Err(missing) if missing.kind() == ErrorKind::NotFound => {
            let named = client.storage_path(url)?;
            let entry = client.block_on(named.storage.stat_named(&named.path));
            (named, entry.map_err(|_| missing)?)
        }
        Err(error) => return Err(error),
    };
    let attributes = attributes.then(|| client.block_on(client.attributes(url))).transpose()?;
    Ok(Metadata { named, entry, attributes })
}

impl Metadata {
    fn text(&self) -> String {
        let mut text = text(&self.named, &self.entry);
        for attribute in self.attributes.iter().flatten() {
            let value = attribute.value.escape_ascii();
            text += &format!("  {} = {value}\n", attribute.name.escape_debug());
        }
        text
    }

    fn object(&self) -> Value {
        let mut object = entry_json(&self.named, &self.entry);
        if let (Some(attributes), Some(fields)) = (&self.attributes, object.as_object_mut()) {
            let value = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let all = attributes.iter().map(|it| (it.name.clone(), value(&it.value).into()));
            fields.insert("attributes".to_owned(), Value::Object(all.collect()));
        }
        object
    }
}

fn text(named: &StoragePath, entry: &DirEntry) -> String {
    let name = named.display_url(&entry.path);
    let mut text = format!("{}\n  kind     {}\n", escape_controls(&name), kind(entry));
    if entry.kind == FileKind::File {
        let shown = |size| format!("{size} bytes ({})", human_bytes(size));
        text += &format!("  size     {}\n", entry.size.map_or_else(|| "unknown".to_owned(), shown));
    }
    if let Some(modified) = entry.modified {
        text += &format!("  modified {} UTC\n", date(modified));
    }
    if entry.kind == FileKind::File {
        let version = entry.validator.as_deref().unwrap_or("unknown");
        text += &format!("  version  {}\n", escape_controls(version));
    }
    text
}

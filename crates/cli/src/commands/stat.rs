//! `hither stat`: kind, size, date and version.

use super::each::{Outcome, at_once, date, kind, object, shown};
use crate::arguments::Stat;
use crate::exit::Failure;
use hither::{Client, Entry, EntryKind, Error, ExtendedAttribute, Named};
use serde_json::Value;

pub(super) fn run(client: &Client, request: &Stat, json: bool) -> Result<(), Failure> {
    let look = |url: &str| look(client, url, request.attributes);
    if let ([url], true) = (&*request.urls, json) {
        super::print(&format!("{}\n", look(url)?.object()))?;
        return Ok(());
    }
    let mut outcome = Outcome::new(json);
    at_once(&request.urls, look, |url, looked| {
        match looked {
            Ok(looked) => outcome.done(&looked.text(), looked.object())?,
            Err(error) => outcome.failed(shown(url), error.into()),
        }
        Ok(())
    })?;
    outcome.end("entries")
}

/// A name that was looked at, with its attributes if these were wanted.
struct Seen {
    named: Named,
    entry: Entry,
    attributes: Option<Vec<ExtendedAttribute>>,
}

fn look(client: &Client, url: &str, attributes: bool) -> Result<Seen, Error> {
    let looked = client.run(client.look(url))?;
    super::tell(&looked.notices);
    let attributes = attributes.then(|| client.run(client.attributes(url))).transpose()?;
    Ok(Seen { named: looked.named, entry: looked.entry, attributes })
}

impl Seen {
    fn text(&self) -> String {
        let mut text = text(&self.named, &self.entry);
        for attribute in self.attributes.iter().flatten() {
            let value = attribute.value.escape_ascii();
            text += &format!("  {} = {value}\n", attribute.name.escape_debug());
        }
        text
    }

    fn object(&self) -> Value {
        let mut object = object(&self.named, &self.entry);
        if let (Some(attributes), Some(fields)) = (&self.attributes, object.as_object_mut()) {
            let value = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let all = attributes.iter().map(|it| (it.name.clone(), value(&it.value).into()));
            fields.insert("attributes".to_owned(), Value::Object(all.collect()));
        }
        object
    }
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

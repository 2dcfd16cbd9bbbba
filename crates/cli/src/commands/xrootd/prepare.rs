//! `hither prepare`: stages files from tape to disk.

use crate::arguments::Prepare;
use crate::exit::CommandError;
use crate::output::{count, redact_url};
use crate::per_argument::ArgumentResults;
use hither::{Client, PrepareAction};
use serde_json::json;

pub(crate) fn run(client: &Client, request: &Prepare, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    let action = if request.evict {
        PrepareAction::Evict
    } else {
        PrepareAction::Stage { priority: request.priority }
    };
    for prepared in client.block_on(client.prepare(&request.urls, action))? {
        let urls = prepared.urls.iter().filter_map(|nth| request.urls.get(*nth));
        let urls: Vec<_> = urls.map(|url| redact_url(url)).collect();
        let files = count(urls.len(), "file");
        let text = match &*prepared.request {
            "" => format!("{files} requested\n"),
            name => format!("{files} requested, as request {name}\n"),
        };
        outcome.done(&text, json!({ "urls": urls, "request": prepared.request }))?;
    }
    outcome.end("requests")
}

//! `hither stage`: brings files from tape to disk, waits for them, and releases them.

use crate::arguments::Stage;
use crate::exit::CommandError;
use crate::interrupt;
use crate::per_argument::{ArgumentResults, expand};
use hither::{Client, Error, ErrorKind, StagingRequest, StagingState};
use hither_core::error::counted;
use hither_core::text::escape_controls;
use hither_transport::redact_url;
use serde_json::json;
use std::time::Duration;

const GOES_ON: &str = "the servers go on: the same command with --wait waits again";

pub(crate) fn run(client: &Client, request: &Stage, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    let urls = expand(client, &request.urls, |url, error| outcome.failed(url, error));
    if urls.is_empty() {
        return outcome.end("requests");
    }
    let urls = &*urls;
    let shown = |all: &[usize]| -> Vec<String> {
        all.iter().filter_map(|nth| urls.get(*nth)).map(|url| redact_url(url)).collect()
    };
    if request.status {
        let found = client.block_on(client.localities(urls))?;
        for (url, locality) in urls.iter().zip(found) {
            let url = redact_url(url);
            let name = locality.name();
            let text = format!("{name:13} {}\n", escape_controls(&url));
            outcome.done(&text, json!({ "url": url, "locality": name }))?;
        }
        return outcome.end("localities");
    }
    let id = request.request.as_deref();
    let ended = match (request.release, request.cancel) {
        (true, _) => Some((client.block_on(client.release(urls, id))?, "released")),
        (_, true) => Some((client.block_on(client.cancel_staging(urls, id))?, "cancelled")),
        _ => None,
    };
    if let Some(((), what)) = ended {
        let all: Vec<usize> = (0..urls.len()).collect();
        let object = json!({ "urls": shown(&all), "request": id.unwrap_or(""), "online": [] });
        outcome.done(&format!("{} {what}\n", counted(urls.len(), "file")), object)?;
        return outcome.end("requests");
    }
    interrupt::advise(GOES_ON);
    let staged = client.block_on(client.stage(urls, request.priority))?;
    for request in &staged {
        let files = counted(request.urls.len(), "file");
        let text = match &*request.request {
            "" => format!("{files} requested\n"),
            name => format!("{files} requested, as request {}\n", escape_controls(name)),
        };
        outcome.title(&text)?;
    }
    let mut states = vec![StagingState::Waiting; urls.len()];
    if request.wait {
        let limit = request.timeout.map(Duration::from_secs_f64);
        client.block_on(StagingRequest::follow(&staged, &mut states, limit, |nth| {
            let url = urls.get(nth).map(|url| redact_url(url)).unwrap_or_default();
            // If the reader of the output has gone away, staging continues.
            drop(outcome.title(&format!("online {}\n", escape_controls(&url))));
        }))?;
    }
    for request in &staged {
        let is_online = |nth: &&usize| states.get(**nth) == Some(&StagingState::Online);
        let online: Vec<usize> = request.urls.iter().filter(is_online).copied().collect();
        let object = json!({
            "urls": shown(&request.urls), "request": request.request, "online": shown(&online),
        });
        outcome.done("", object)?;
    }
    for (url, state) in urls.iter().zip(&states) {
        if let StagingState::Failed(why) = state {
            let url = redact_url(url);
            let what = format!("{url} cannot be staged: {why:?}");
            outcome.failed(&url, Error::new(ErrorKind::Unavailable, what).into());
        }
    }
    let left = states.iter().filter(|state| !state.is_final()).count();
    if request.wait && left > 0 {
        let what =
            format!("{left} of {} are not on disk yet ({GOES_ON})", counted(urls.len(), "file"));
        outcome.failed("--timeout", Error::new(ErrorKind::Timeout, what).into());
    }
    outcome.end("requests")
}

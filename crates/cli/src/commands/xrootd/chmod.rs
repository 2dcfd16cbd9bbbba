//! `hither chmod`: changes permissions.

use crate::arguments::Chmod;
use crate::exit::CommandError;
use crate::per_argument::{ArgumentResults, expand_if_known, run_parallel};
use hither::Client;
use hither_transport::redact_url;
use serde_json::json;

pub(crate) fn run(client: &Client, request: &Chmod, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    let urls =
        expand_if_known(client, &request.urls, true, |url, error| outcome.failed(url, error));
    run_parallel(
        &urls,
        |url| client.block_on(client.chmod(url, request.mode)),
        |url, changed| {
            match changed {
                Ok(()) => outcome.done("", json!({ "url": redact_url(url) }))?,
                Err(error) => outcome.failed(&redact_url(url), error.into()),
            }
            Ok(())
        },
    )?;
    outcome.end("changed")
}

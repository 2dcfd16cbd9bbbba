//! `hither chmod`: rights.

use super::each::{Outcome, at_once, shown};
use crate::arguments::Chmod;
use crate::exit::Failure;
use hither::Client;
use serde_json::json;

pub(super) fn run(client: &Client, request: &Chmod, json: bool) -> Result<(), Failure> {
    let mut outcome = Outcome::new(json);
    at_once(
        &request.urls,
        |url| client.run(client.change_mode(url, request.mode)),
        |url, changed| {
            match changed {
                Ok(()) => outcome.done("", json!({ "url": shown(url) }))?,
                Err(error) => outcome.failed(shown(url), error.into()),
            }
            Ok(())
        },
    )?;
    outcome.end("changed")
}

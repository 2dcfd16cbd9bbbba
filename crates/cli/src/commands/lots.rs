//! `hither lots`: reserved space on a server of hither.

use crate::arguments::Lots;
use crate::exit::CommandError;
use crate::output::{date, human_bytes};
use crate::per_argument::ArgumentResults;
use hither::{Client, Lot};
use hither_core::text::escape_controls;
use serde_json::json;
use std::time::{Duration, SystemTime};

pub(super) fn run(client: &Client, request: &Lots, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    let (api, path) = client.lots(request.url())?;
    let lots = match request {
        Lots::Show { .. } => client.block_on(api.all())?,
        Lots::Reserve { bytes, lease, .. } => {
            vec![client.block_on(api.reserve(&path, *bytes, *lease))?]
        }
        Lots::Renew { id, bytes, lease, .. } => {
            vec![client.block_on(api.renew(id, *bytes, *lease))?]
        }
        Lots::Release { id, .. } => {
            client.block_on(api.release(id))?;
            outcome.done("", json!({ "id": id }))?;
            return outcome.end("released");
        }
    };
    for lot in lots {
        outcome.done(&line(&lot), json!(lot))?;
    }
    outcome.end("lots")
}

fn line(lot: &Lot) -> String {
    let ends = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(lot.expires));
    format!(
        "{}  {} of {} used, until {} UTC  {}\n",
        escape_controls(&lot.id),
        human_bytes(lot.used_bytes),
        human_bytes(lot.bytes),
        ends.map_or_else(|| "-".to_owned(), date),
        escape_controls(&lot.path)
    )
}

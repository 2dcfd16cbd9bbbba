//! `hither locate`: the servers that have files.

use crate::arguments::Locate;
use crate::exit::CommandError;
use crate::output::redact_url;
use crate::per_argument::{ArgumentResults, run_parallel};
use hither::{Client, ReplicaServer};
use serde_json::json;

pub(super) fn run(client: &Client, request: &Locate, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    let titled = request.urls.len() > 1;
    run_parallel(
        &request.urls,
        |url| client.block_on(client.locate(url)),
        |url, holders| {
            match holders {
                Ok(holders) => {
                    let title =
                        if titled { format!("{}:\n", redact_url(url)) } else { String::new() };
                    let lines: String = holders.iter().map(line).collect();
                    let servers: Vec<_> = holders.iter().map(object).collect();
                    let object = json!({ "url": redact_url(url), "servers": servers });
                    outcome.done(&format!("{title}{lines}"), object)?;
                }
                Err(error) => outcome.failed(redact_url(url), error.into()),
            }
            Ok(())
        },
    )?;
    outcome.end("files")
}

fn line(holder: &ReplicaServer) -> String {
    let access = if holder.writable { "read-write" } else { "read-only" };
    let pending = if holder.pending { ", being fetched" } else { "" };
    format!("{}  {access}{pending}\n", holder.server)
}

fn object(holder: &ReplicaServer) -> serde_json::Value {
    json!({ "server": holder.server, "writable": holder.writable, "pending": holder.pending })
}

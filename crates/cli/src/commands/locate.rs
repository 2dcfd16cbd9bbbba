//! `hither locate`: the servers that have files.

use super::each::{Outcome, at_once, shown};
use crate::arguments::Locate;
use crate::exit::Failure;
use hither::{Client, Holder};
use serde_json::json;

pub(super) fn run(client: &Client, request: &Locate, json: bool) -> Result<(), Failure> {
    let mut outcome = Outcome::new(json);
    let titled = request.urls.len() > 1;
    at_once(
        &request.urls,
        |url| client.run(client.holders(url)),
        |url, holders| {
            match holders {
                Ok(holders) => {
                    let title = if titled { format!("{}:\n", shown(url)) } else { String::new() };
                    let lines: String = holders.iter().map(line).collect();
                    let servers: Vec<_> = holders.iter().map(object).collect();
                    let object = json!({ "url": shown(url), "servers": servers });
                    outcome.done(&format!("{title}{lines}"), object)?;
                }
                Err(error) => outcome.failed(shown(url), error.into()),
            }
            Ok(())
        },
    )?;
    outcome.end("files")
}

fn line(holder: &Holder) -> String {
    let access = if holder.writable { "read-write" } else { "read-only" };
    let pending = if holder.pending { ", being fetched" } else { "" };
    format!("{}  {access}{pending}\n", holder.server)
}

fn object(holder: &Holder) -> serde_json::Value {
    json!({ "server": holder.server, "writable": holder.writable, "pending": holder.pending })
}

//! `hither locate`: lists the servers of a cluster that have a file.

use crate::arguments::Locate;
use crate::exit::CommandError;
use crate::per_argument::{ArgumentResults, expand, run_parallel};
use hither::{Client, ReplicaServer};
use hither_core::text::escape_controls;
use hither_transport::redact_url;
use serde_json::json;

pub(crate) fn run(client: &Client, request: &Locate, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    let urls = expand(client, &request.urls, |url, error| outcome.failed(url, error));
    let titled = urls.len() > 1;
    run_parallel(
        &urls,
        |url| client.block_on(client.locate(url)),
        |url, servers| {
            match servers {
                Ok(servers) => {
                    let title = if titled {
                        format!("{}:\n", escape_controls(&redact_url(url)))
                    } else {
                        String::new()
                    };
                    let lines: String = servers.iter().map(line).collect();
                    let objects: Vec<_> = servers.iter().map(object).collect();
                    let object = json!({ "url": redact_url(url), "servers": objects });
                    outcome.done(&format!("{title}{lines}"), object)?;
                }
                Err(error) => outcome.failed(&redact_url(url), error.into()),
            }
            Ok(())
        },
    )?;
    outcome.end("files")
}

fn line(replica: &ReplicaServer) -> String {
    let access = if replica.writable { "read-write" } else { "read-only" };
    let pending = if replica.pending { ", being staged" } else { "" };
    format!("{}  {access}{pending}\n", escape_controls(&replica.server))
}

fn object(replica: &ReplicaServer) -> serde_json::Value {
    json!({ "server": replica.server, "writable": replica.writable, "pending": replica.pending })
}

//! `hither checksum`: the server's, or else computed from the bytes.

use crate::arguments::Checksum;
use crate::exit::CommandError;
use crate::output::redact_url;
use crate::per_argument::{ArgumentResults, Semaphore, run_parallel};
use hither::{Client, Error, Hasher};
use serde_json::json;

/// Files that are read at a time: each may hold 32 MiB on its way.
const MAX_READ: usize = 4;

pub(super) fn run(client: &Client, request: &Checksum, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    let gate = Semaphore::new(MAX_READ);
    run_parallel(
        &request.urls,
        |url| sum(client, url, request, &gate),
        |url, sum| {
            match sum {
                Ok(sum) => show(&sum, request, &mut outcome)?,
                Err(error) => outcome.failed(redact_url(url), error.into()),
            }
            Ok(())
        },
    )?;
    outcome.end("checksums")
}

struct Sum {
    value: hither::Checksum,
    name: String,
    is_from_server: bool,
}

fn show(sum: &Sum, request: &Checksum, outcome: &mut ArgumentResults) -> std::io::Result<()> {
    let how = if sum.is_from_server { "from the server" } else { "computed from the file" };
    let text = format!("{}  {}  ({how})\n", sum.value, sum.name);
    let object = json!({
        "url": sum.name,
        "algorithm": request.algorithm.name(),
        "value": sum.value.hex(),
        "by": if sum.is_from_server { "server" } else { "reading" },
    });
    outcome.done(&text, object)
}

fn sum(client: &Client, url: &str, request: &Checksum, gate: &Semaphore) -> Result<Sum, Error> {
    let named = client.storage_path(url)?;
    let name = named.display_url(&named.path);
    if let Some(value) = client.block_on(named.storage.checksum(&named.path, request.algorithm))? {
        return Ok(Sum { value, name, is_from_server: !named.is_local() });
    }
    gate.pass(|| {
        let file = client.file(url)?;
        let size = file.stat(client)?.size;
        let mut hasher = Hasher::new(request.algorithm);
        file.stream(client, 0..size, |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        Ok(Sum { value: hasher.finish(), name, is_from_server: false })
    })
}

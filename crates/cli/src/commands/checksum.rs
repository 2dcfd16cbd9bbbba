//! `hither checksum`: checksums from the server, else computed from the file.

use crate::arguments::Checksum;
use crate::exit::CommandError;
use crate::output::redact_url;
use crate::per_argument::{ArgumentResults, Semaphore, run_parallel};
use hither::{Client, Error, Hasher};
use serde_json::json;

/// The largest number of files that are read at a time: each may have 32 MiB in flight.
const MAX_READ: usize = 4;

pub(super) fn run(client: &Client, request: &Checksum, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    let gate = Semaphore::new(MAX_READ);
    run_parallel(
        &request.urls,
        |url| checksum(client, url, request, &gate),
        |url, checksum| {
            match checksum {
                Ok(checksum) => show(&checksum, request, &mut outcome)?,
                Err(error) => outcome.failed(redact_url(url), error.into()),
            }
            Ok(())
        },
    )?;
    outcome.end("checksums")
}

struct FileChecksum {
    value: hither::Checksum,
    name: String,
    is_from_server: bool,
}

fn show(
    checksum: &FileChecksum,
    request: &Checksum,
    outcome: &mut ArgumentResults,
) -> std::io::Result<()> {
    let how = if checksum.is_from_server { "from the server" } else { "computed from the file" };
    let text = format!("{}  {}  ({how})\n", checksum.value, checksum.name);
    let object = json!({
        "url": checksum.name,
        "algorithm": request.algorithm.name(),
        "value": checksum.value.hex(),
        "by": if checksum.is_from_server { "server" } else { "reading" },
    });
    outcome.done(&text, object)
}

fn checksum(
    client: &Client,
    url: &str,
    request: &Checksum,
    gate: &Semaphore,
) -> Result<FileChecksum, Error> {
    let named = client.storage_path(url)?;
    let name = named.display_url(&named.path);
    if let Some(value) = client.block_on(named.storage.checksum(&named.path, request.algorithm))? {
        return Ok(FileChecksum { value, name, is_from_server: !named.is_local() });
    }
    gate.pass(|| {
        let file = client.file(url)?;
        let size = file.stat(client)?.size;
        let mut hasher = Hasher::new(request.algorithm);
        file.stream(client, 0..size, |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        Ok(FileChecksum { value: hasher.finish(), name, is_from_server: false })
    })
}

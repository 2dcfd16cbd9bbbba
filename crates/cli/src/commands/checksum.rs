//! `hither checksum`: checksums from the server, otherwise computed from the file; and their
//! comparison with a list.

mod list;

use crate::arguments::{Checksum, read_list};
use crate::exit::CommandError;
use crate::output::eprint_line;
use crate::per_argument::{ArgumentResults, Semaphore, expand, run_parallel};
use hither::{Algorithm, Client, Error, ErrorKind, FileStat, url_below};
use hither_checksum::Hasher;
use hither_core::error::counted;
use hither_transport::redact_url;
use list::ListedChecksum;
use serde_json::json;
use std::path::Path;

/// Maximum number of files that are read at a time: each may have 32 MiB in flight.
const MAX_READ: usize = 4;

pub(super) fn run(client: &Client, request: &Checksum, json: bool) -> Result<(), CommandError> {
    if let Some(path) = &request.check {
        return check(client, path, request, json);
    }
    let mut outcome = ArgumentResults::new(json);
    let urls = expand(client, &request.urls, |url, error| outcome.failed(url, error));
    let algorithm = request.algorithm.unwrap_or(Algorithm::Adler32);
    let gate = Semaphore::new(MAX_READ);
    run_parallel(
        &urls,
        |url| checksum(client, url, algorithm, &gate),
        |url, checksum| {
            match checksum {
                Ok(checksum) => {
                    let line = list::line(&checksum.value, &checksum.name);
                    outcome.done(&line, checksum.object())?;
                }
                Err(error) => outcome.failed(&redact_url(url), error.into()),
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

impl FileChecksum {
    fn object(&self) -> serde_json::Value {
        json!({
            "url": self.name,
            "algorithm": self.value.algorithm().name(),
            "value": self.value.hex(),
            "by": if self.is_from_server { "server" } else { "reading" },
        })
    }
}

fn checksum(
    client: &Client,
    url: &str,
    algorithm: Algorithm,
    gate: &Semaphore,
) -> Result<FileChecksum, Error> {
    let checksum = reported_or_computed(client, url, algorithm, gate);
    checksum.map_err(|error| client.block_on(client.explain_read(url, error)))
}

fn reported_or_computed(
    client: &Client,
    url: &str,
    algorithm: Algorithm,
    gate: &Semaphore,
) -> Result<FileChecksum, Error> {
    let named = client.storage_path(url)?;
    let name = named.display_url(&named.path);
    if let Some(value) = client.block_on(named.storage.checksum(&named.path, algorithm))? {
        return Ok(FileChecksum { value, name, is_from_server: !named.is_local() });
    }
    gate.pass(|| {
        let file = client.file(url)?;
        let FileStat { size, validator } = file.stat(client)?;
        if validator.is_none() {
            client.block_on(client.check_no_directory(url))?;
        }
        let mut hasher = Hasher::new(algorithm);
        file.stream(client, 0..size, |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        Ok(FileChecksum { value: hasher.finish(), name, is_from_server: false })
    })
}

/// Compares files with a list of checksums, as `md5sum -c` does.
fn check(client: &Client, path: &Path, request: &Checksum, json: bool) -> Result<(), CommandError> {
    let directory = match &*request.urls {
        [] => None,
        [directory] => Some(&**directory),
        _ => {
            let what = "--check takes one URL, the directory of relative names";
            return Err(CommandError::usage(what));
        }
    };
    let list = list::parse(&read_list(path)?, request.algorithm);
    if list.checksums.is_empty() {
        let what = format!(
            "{} has no checksums: expected lines of a checksum, two spaces and a name",
            path.display()
        );
        return Err(CommandError::usage(what));
    }
    if list.unread > 0 {
        let lines = counted(list.unread, "line");
        eprint_line(&format!("hither: {}: {lines} without a checksum, left out", path.display()));
    }
    let mut outcome = ArgumentResults::new(json);
    let gate = Semaphore::new(MAX_READ);
    let ask = |listed: &ListedChecksum| {
        let url = match directory.filter(|_| is_relative(&listed.name)) {
            Some(directory) => url_below(directory, &listed.name),
            None => listed.name.clone(),
        };
        checksum(client, &url, listed.expected.algorithm(), &gate)
    };
    run_parallel(&list.checksums, ask, |listed, found| {
        let ListedChecksum { name, expected } = listed;
        let shown = list::escaped(&redact_url(name));
        let (is_equal, object, error) = match found {
            Ok(found) => {
                let is_equal = found.value == *expected;
                let mut object = found.object();
                object["expected"] = expected.hex().into();
                let what =
                    format!("{}: the checksum is {}, expected {expected}", found.name, found.value);
                (is_equal, Some(object), Error::new(ErrorKind::Corrupt, what))
            }
            Err(error) => (false, None, error),
        };
        let line = if is_equal { "OK" } else { "FAILED" };
        let text =
            if is_equal && request.quiet { String::new() } else { format!("{shown}: {line}\n") };
        match object {
            Some(object) => outcome.done(&text, object)?,
            None => outcome.title(&text)?,
        }
        if !is_equal {
            outcome.failed(&redact_url(name), error.into());
        }
        Ok(())
    })?;
    outcome.end("checksums")
}

/// Returns true for a name that is neither a URL nor an absolute path.
fn is_relative(name: &str) -> bool {
    !name.starts_with('/') && !name.contains("://") && !name.starts_with("file:")
}

//! Clients: the state that files share.

use crate::border::{free, guarded, own};
use crate::error::ErrorObject;
use crate::foreign::{c_string, handle, pairs};
use crate::options::client_config;
use hither::{Error, ErrorKind, PerProcess};
use std::ffi::{CStr, c_char};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Connections, cache, credentials and threads that files share. Clients share nothing.
#[derive(Debug)]
pub struct Client(PerProcess<Arc<hither::Client>>);

/// The version of the library.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// The client behind a pointer.
pub(crate) fn opened(client: Option<&Client>) -> Result<&Arc<hither::Client>, Error> {
    own(&handle("the client", client)?.0)
}

/// Runs a blocking operation of a client; returns `failed` after an error.
pub(crate) fn with_client<T>(
    client: Option<&Client>,
    error: Option<&mut *mut ErrorObject>,
    failed: T,
    body: impl FnOnce(&Arc<hither::Client>) -> Result<T, Error>,
) -> T {
    guarded(error, failed, || body(opened(client)?))
}

/// Installs a handler for SIGPIPE, which otherwise ends a C program when a server closes a
/// connection during a write: unlike `send`, `writev` has no flag to prevent that. The handler only
/// calls the program's own handler, if there is one.
fn survive_broken_connections(client: &hither::Client) -> Result<(), Error> {
    let _entered = client.runtime().enter();
    signal(SignalKind::pipe())
        .map(drop)
        .map_err(|error| Error::new(ErrorKind::Local, "cannot handle SIGPIPE").with_source(error))
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn hither_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Creates a client. `options` lists names and values in turn and ends with NULL; NULL stands for
/// no options. What they do not say comes from the environment and the configuration file, as for
/// the command. docs/guides/c.md lists the names. Returns NULL after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_client_new(
    options: *const *const c_char,
    error: Option<&mut *mut ErrorObject>,
) -> Option<Box<Client>> {
    guarded(error, None, || {
        let client = hither::Client::new(client_config(&pairs(options)?)?)?;
        survive_broken_connections(&client)?;
        Ok(Some(Box::new(Client(PerProcess::new(Arc::new(client))))))
    })
}

/// Returns the report of all reads of a client as JSON: requests, round trips, connections, bytes,
/// hits. Free it with hither_string_free. Returns NULL after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_client_report(
    client: Option<&Client>,
    error: Option<&mut *mut ErrorObject>,
) -> *mut c_char {
    with_client(client, error, std::ptr::null_mut(), |client| {
        let json = serde_json::to_string(&client.report()).map_err(|error| {
            Error::new(ErrorKind::Local, "cannot write the report").with_source(error)
        })?;
        Ok(c_string(&json).into_raw())
    })
}

/// Frees a client. It ends with the last file and queue of it that is freed, and then waits a few
/// seconds at most for data that is being written to disk. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn hither_client_free(client: Option<Box<Client>>) {
    free(client);
}

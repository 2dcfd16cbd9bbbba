//! `hither serve`: a directory for others to read, until Ctrl-C or SIGTERM.

use super::print;
use crate::arguments::{Common, Serve};
use crate::exit::{Failure, on_interruption};
use hither_server::{Server, Settings, TlsFiles};
use serde_json::json;

pub(super) fn run(request: &Serve, common: &Common) -> Result<(), Failure> {
    let settings = settings(request, common)?;
    let (root, write) = (settings.root.clone(), settings.write);
    let server = Server::start(settings)?;
    server.stop_on_termination()?;
    let stopper = server.stopper();
    on_interruption(move || stopper.stop());
    let urls = server.urls();
    if common.json {
        print(&format!("{}\n", json!({ "urls": urls, "root": root, "write": write })))?;
    } else {
        let manner = if write { "for reading and writing" } else { "for reading" };
        print(&format!("{} serves {} {manner}\n", urls.join(" "), root.display()))?;
    }
    server.wait();
    Ok(())
}

/// Flags first, then the configuration file, then the defaults.
fn settings(request: &Serve, common: &Common) -> Result<Settings, Failure> {
    let mut settings = match &common.config {
        None => Settings::new(""),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::local(format!("cannot read {}", path.display()), error)
            })?;
            Settings::from_toml(&text)
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?
        }
    };
    if let Some(root) = &request.root {
        settings.root.clone_from(root);
    }
    if settings.root.as_os_str().is_empty() {
        return Err(Failure::usage("neither the command nor the configuration names a directory"));
    }
    if !request.listen.is_empty() {
        settings.listen.clone_from(&request.listen);
    }
    settings.write |= request.write;
    if let (Some(certificate), Some(key)) = (request.tls_cert.clone(), request.tls_key.clone()) {
        settings.tls = Some(TlsFiles { certificate, key });
    }
    if request.access_log.is_some() {
        settings.access_log.clone_from(&request.access_log);
    }
    Ok(settings)
}

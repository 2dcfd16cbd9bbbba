//! `hither serve`: a directory for others to read, until Ctrl-C or SIGTERM. SIGHUP has its configuration read again.

use crate::arguments::{GlobalArgs, Serve};
use crate::exit::CommandError;
use crate::interrupt;
use crate::output::{eprint_line, print};
use hither_server::{Reloader, Server, Settings, TlsFiles};
use sd_notify::NotifyState;
use serde_json::json;

pub(super) fn run(request: &Serve, common: &GlobalArgs) -> Result<(), CommandError> {
    let settings = settings(request, common)?;
    let (root, write) = (settings.root.clone(), settings.write);
    let mut server = Server::start(settings)?;
    server.stop_on_termination()?;
    let stopper = server.stopper();
    interrupt::handle(move || stopper.stop());
    let (again, reloader) = ((request.clone(), common.clone()), server.reloader());
    server.on_hangup(move || reload(&again.0, &again.1, &reloader))?;
    server.when_stopped(|| tell(&[NotifyState::Stopping]));
    let urls = server.urls();
    let metrics = server.metrics_address().map(|address| format!("http://{address}/"));
    if common.json {
        let told = json!({ "urls": urls, "root": root, "write": write, "metrics": metrics });
        print(&format!("{told}\n"))?;
    } else {
        let manner = if write { "for reading and writing" } else { "for reading" };
        print(&format!("{} serves {} {manner}\n", urls.join(" "), root.display()))?;
        if let Some(metrics) = metrics {
            print(&format!("metrics and status at {metrics}status\n"))?;
        }
    }
    tell(&[NotifyState::Ready]);
    server.wait();
    Ok(())
}

/// Tells the service manager, if there is one that wants to know.
fn tell(states: &[NotifyState<'_>]) {
    // One that is gone need not know.
    let _ = sd_notify::notify(states);
}

/// Reads the configuration again. What is wrong with it leaves everything as it was.
fn reload(request: &Serve, common: &GlobalArgs, reloader: &Reloader) {
    let now = NotifyState::monotonic_usec_now();
    tell(&now.map_or_else(|_| vec![], |now| vec![NotifyState::Reloading, now]));
    let left = settings(request, common).and_then(|settings| Ok(reloader.reload(settings)?));
    match left {
        Ok(left) if left.is_empty() => eprint_line("hither: the configuration was reloaded"),
        Ok(left) => {
            let left = left.join(", ");
            eprint_line(&format!(
                "hither: the configuration was reloaded; restart to apply {left}"
            ));
        }
        Err(failure) => {
            eprint_line("hither: the configuration was not reloaded:");
            crate::exit::print_error(&failure);
        }
    }
    tell(&[NotifyState::Ready]);
}

/// Flags first, then the configuration file, then the defaults.
fn settings(request: &Serve, common: &GlobalArgs) -> Result<Settings, CommandError> {
    let mut settings = match &common.config {
        None => Settings::new(""),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                CommandError::local(format!("cannot read {}", path.display()), error)
            })?;
            Settings::from_toml(&text)
                .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?
        }
    };
    if let Some(root) = &request.root {
        settings.root.clone_from(root);
    }
    if settings.root.as_os_str().is_empty() {
        return Err(CommandError::usage(
            "neither the command nor the configuration names a directory",
        ));
    }
    if !request.listen.is_empty() {
        settings.listen.clone_from(&request.listen);
    }
    settings.write |= request.write;
    if let (Some(certificate), Some(key)) = (request.tls_cert.clone(), request.tls_key.clone()) {
        settings.tls = Some(TlsFiles { certificate, key });
    }
    settings.metrics = request.metrics.or(settings.metrics);
    if request.access_log.is_some() {
        settings.access_log.clone_from(&request.access_log);
    }
    Ok(settings)
}

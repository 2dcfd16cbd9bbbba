//! `hither serve`: serves a directory until Ctrl-C or SIGTERM. SIGHUP reloads the configuration.

pub(super) mod federate;

use crate::arguments::{GlobalArgs, Serve};
use crate::environment;
use crate::exit::CommandError;
use crate::interrupt;
use crate::output::{eprint_line, print};
use hither_server::{Server, Settings, TapeHelper, TlsFiles};
use sd_notify::NotifyState;
use serde_json::json;
use std::path::PathBuf;

/// The name of the hidden command that runs the tape helper.
const TAPE_HELPER: &str = "tape-helper";

pub(super) fn run(request: &Serve, common: &GlobalArgs) -> Result<(), CommandError> {
    let settings = settings(request, common)?;
    let root = settings.root.clone();
    let write = settings.write;
    if request.check_config {
        return check_config(&settings, false);
    }
    let tape = tape_helper(&settings)?;
    // Threads inherit the confinement, so it comes before they are started.
    hither_server::confine(&settings, &read_later(common));
    let server = Server::start_with_tape(settings, tape)?;
    let reloader = server.reloader();
    let options = (request.clone(), common.clone());
    let reload = move || {
        let (request, common) = &options;
        Ok(reloader.reload(self::settings(request, common)?)?)
    };
    run_until_stopped(server, reload, |server| {
        let urls = server.urls();
        let metrics = server.metrics_address().map(|address| format!("http://{address}/"));
        if common.json {
            let object = json!({ "urls": urls, "root": root, "write": write, "metrics": metrics });
            print(&format!("{object}\n"))?;
            return Ok(());
        }
        let access = if write { "for reading and writing" } else { "for reading" };
        print(&format!("{} serves {} {access}\n", urls.join(" "), root.display()))?;
        print_metrics(metrics.as_deref())
    })
}

/// Checks settings as the start would, and says that they are valid.
pub(super) fn check_config(settings: &Settings, has_backend: bool) -> Result<(), CommandError> {
    for warning in Server::check(settings, has_backend)? {
        eprint_line(&format!("hither: warning: {warning}"));
    }
    Ok(print("the configuration is valid\n")?)
}

/// Prints the URL of the status page, if there is one.
pub(super) fn print_metrics(metrics: Option<&str>) -> Result<(), CommandError> {
    if let Some(metrics) = metrics {
        print(&format!("metrics and status at {metrics}status\n"))?;
    }
    Ok(())
}

/// Runs a server until Ctrl-C or SIGTERM. `reload` is called after each SIGHUP, and returns the
/// keys that need a restart; `announce` prints the address of the server.
pub(super) fn run_until_stopped(
    mut server: Server,
    reload: impl Fn() -> Result<Vec<&'static str>, CommandError> + Send + Sync + 'static,
    announce: impl FnOnce(&Server) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    for warning in server.warnings() {
        eprint_line(&format!("hither: warning: {warning}"));
    }
    server.stop_on_termination()?;
    let stopper = server.stopper();
    interrupt::handle(move || stopper.stop());
    server.on_hangup(move || report_reload(&reload))?;
    server.when_stopped(|| notify(&[NotifyState::Stopping]));
    announce(&server)?;
    notify(&[NotifyState::Ready]);
    server.wait();
    Ok(())
}

/// Starts the process that may run the `[tape]` command: this program with another verb.
fn tape_helper(settings: &Settings) -> Result<Option<TapeHelper>, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::local("cannot find this program".to_owned(), error))?;
    Ok(TapeHelper::start(settings, &program, &[TAPE_HELPER])?)
}

/// Runs the tape helper process.
pub(super) fn run_tape_helper() -> Result<(), CommandError> {
    hither_server::run_tape_helper()
        .map_err(|error| CommandError::local("the tape helper failed".to_owned(), error))
}

/// The files that a reload reads and the settings do not name.
fn read_later(common: &GlobalArgs) -> Vec<PathBuf> {
    let authorities = ["SSL_CERT_FILE", "SSL_CERT_DIR"].map(environment::variable);
    let authorities = authorities.into_iter().flatten().map(PathBuf::from);
    common.client.options.config.clone().into_iter().chain(authorities).collect()
}

/// Notifies the service manager, if there is one.
fn notify(states: &[NotifyState<'_>]) {
    // If the service manager is gone, the notification is lost.
    let _ = sd_notify::notify(states);
}

/// Reloads the configuration. If it is invalid, the settings stay unchanged.
fn report_reload(reload: &impl Fn() -> Result<Vec<&'static str>, CommandError>) {
    let now = NotifyState::monotonic_usec_now();
    notify(&now.map_or_else(|_| vec![], |now| vec![NotifyState::Reloading, now]));
    let pending = reload();
    match pending {
        Ok(keys) if keys.is_empty() => eprint_line("hither: the configuration was reloaded"),
        Ok(keys) => eprint_line(&format!(
            "hither: the configuration was reloaded; restart to apply {}",
            keys.join(", ")
        )),
        Err(failure) => {
            eprint_line("hither: the configuration was not reloaded:");
            crate::exit::print_error(&failure);
        }
    }
    notify(&[NotifyState::Ready]);
}

/// Settings from the options, otherwise from the configuration file, otherwise the defaults.
fn settings(request: &Serve, common: &GlobalArgs) -> Result<Settings, CommandError> {
    let mut settings = match &common.client.options.config {
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
            "no directory to serve: name one on the command line or in the configuration",
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

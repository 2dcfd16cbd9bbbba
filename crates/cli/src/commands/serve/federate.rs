//! `hither federate`: serves many storages as one name space, until Ctrl-C or SIGTERM. SIGHUP
//! reloads the configuration.

use crate::arguments::{Federate, GlobalArgs};
use crate::commands::serve::{check_config, print_metrics, run_until_stopped};
use crate::environment::{client_config, state_folder};
use crate::exit::CommandError;
use crate::output::print;
use hither::{Client, ClientOptions, MonotonicClock};
use hither_federate::{Endpoint, EndpointCredentials, Federation, FederationConfig};
use hither_server::{Backend, RelayEgress, Server};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The clients of a federation, one for each set of credentials. They live as long as the
/// federation.
#[derive(Default)]
struct Clients {
    by_credentials: HashMap<EndpointCredentials, Client>,
    egress: Arc<RelayEgress>,
}

pub(in crate::commands) fn run(
    request: &Federate,
    common: &GlobalArgs,
) -> Result<(), CommandError> {
    let config = read_config(request, common)?;
    let mut clients = Clients::default();
    let endpoints = open_endpoints(&config, common, &mut clients)?;
    let count = endpoints.len();
    let federation = Federation::new(&config, endpoints, Arc::new(MonotonicClock::start()))?;
    if request.check_config {
        return check_config(&config.server, true);
    }
    let backend: Arc<dyn Backend> = Arc::<Federation>::clone(&federation);
    let server = Server::start_with_backend(config.server, backend)?;
    server.spawn(federation.probe_endpoints());
    let reloader = server.reloader();
    let options = (request.clone(), common.clone());
    // The clients are dropped at the end of this function: threads of the server must not wait for
    // the clients' threads.
    let clients = Arc::new(Mutex::new(clients));
    let kept = Arc::clone(&clients);
    let reload = move || {
        let (request, common) = &options;
        let config = read_config(request, common)?;
        let endpoints = open_endpoints(&config, common, &mut hither_core::sync::lock(&kept))?;
        // The federation is reloaded last: opening the endpoints has already found its errors.
        let needs_restart = reloader.reload(config.server.clone())?;
        federation.reload(&config, endpoints)?;
        Ok(needs_restart)
    };
    let done = run_until_stopped(server, reload, |server| {
        let urls = server.urls();
        let metrics = server.metrics_address().map(|address| format!("http://{address}/"));
        if common.json {
            let object = json!({ "urls": urls, "endpoints": count, "metrics": metrics });
            return Ok(print(&format!("{object}\n"))?);
        }
        print(&format!("{} federates {count} endpoints\n", urls.join(" ")))?;
        print_metrics(metrics.as_deref())
    });
    drop(clients);
    done
}

/// Options from the command line, otherwise from the configuration file, otherwise the defaults.
fn read_config(request: &Federate, common: &GlobalArgs) -> Result<FederationConfig, CommandError> {
    let Some(path) = &common.client.options.config else {
        return Err(CommandError::usage("name the configuration of the federation: --config FILE"));
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| CommandError::local(format!("cannot read {}", path.display()), error))?;
    let mut config = FederationConfig::from_toml(&text)
        .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?;
    if !request.listen.is_empty() {
        config.server.listen.clone_from(&request.listen);
    }
    config.server.metrics = request.metrics.or(config.server.metrics);
    // A check of the configuration writes nothing.
    config.federation.state =
        config.federation.state.or_else(state_folder).filter(|_| !request.check_config);
    if request.access_log.is_some() {
        config.server.access_log.clone_from(&request.access_log);
    }
    Ok(config)
}

/// Opens the storages of all endpoints; sends no requests.
fn open_endpoints(
    config: &FederationConfig,
    common: &GlobalArgs,
    clients: &mut Clients,
) -> Result<Vec<Endpoint>, CommandError> {
    let mut endpoints = Vec::with_capacity(config.endpoints.len());
    let tables = config.endpoints.iter();
    let named = tables.flat_map(|it| std::iter::once(&it.url).chain(it.redirects.iter().flatten()));
    clients.egress.configure(named.map(String::as_str), config.federation.parsed_networks()?);
    for settings in &config.endpoints {
        let place = |key: &str| format!("endpoints: {}: {key}", settings.name);
        if !clients.by_credentials.contains_key(&settings.credentials) {
            let options = client_options(config, common, &settings.credentials);
            let mut client_config =
                client_config(options).map_err(|error| error.context(place("credentials")))?;
            client_config.transport.wait_for_refusing = false;
            client_config.transport.gate = Some(Arc::<RelayEgress>::clone(&clients.egress));
            let client = Client::new(client_config)?;
            clients.by_credentials.insert(settings.credentials.clone(), client);
        }
        let Some(client) = clients.by_credentials.get(&settings.credentials) else { continue };
        let (url, query) =
            settings.url.split_at(settings.url.find('?').unwrap_or(settings.url.len()));
        let url = format!("{}/{query}", url.trim_end_matches('/'));
        let (storage, root) = client.storage(&url).map_err(|error| error.context(place("url")))?;
        endpoints.push(Endpoint::new(settings, storage, root)?);
    }
    Ok(endpoints)
}

/// The client options for endpoints with these credentials: those of the command line, with the
/// deadline of the federation as the default connect timeout.
fn client_options(
    config: &FederationConfig,
    common: &GlobalArgs,
    credentials: &EndpointCredentials,
) -> ClientOptions {
    let options = common.options("");
    let deadline = Duration::from_secs_f64(config.federation.deadline_seconds);
    let own = credentials.clone();
    ClientOptions {
        no_store: true,
        // `--config` names the file of the federation.
        config: None,
        connect_timeout: options.connect_timeout.or(Some(deadline)),
        token_file: own.token_file.or(options.token_file),
        cert: own.cert.or(options.cert),
        key: own.key.or(options.key),
        proxy_cert: own.proxy_cert.or(options.proxy_cert),
        ca: own.ca.or(options.ca),
        ca_dir: own.ca_dir.or(options.ca_dir),
        anonymous: own.anonymous || options.anonymous,
        ..options
    }
}

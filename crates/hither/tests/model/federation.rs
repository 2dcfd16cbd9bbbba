//! A federation of two servers, in this process.

use crate::history::History;
use hither::{Client, ClientConfig, MonotonicClock};
use hither_federate::{Endpoint, Federation, FederationConfig};
use hither_server::{Backend, Server};
use hither_testkit::mock_http::webdav::{MockWebDavServer, PlannedFault, WebDavBehaviour};
use std::sync::Arc;
use std::time::Duration;

/// Timeouts of clients whose servers do not answer.
const SHORT: Duration = Duration::from_millis(200);

/// The federation with its endpoints. Each file is at one of them.
pub(crate) struct Federated {
    // Threads of the server must not wait for those of the client.
    server: Server,
    _client: Client,
    pub(crate) endpoints: [MockWebDavServer; 2],
}

impl Federated {
    pub(crate) fn new(
        behaviour: WebDavBehaviour,
        faults: Vec<PlannedFault>,
        history: &History,
    ) -> Self {
        let endpoints = [faults, Vec::new()]
            .map(|faults| MockWebDavServer::behaving(behaviour, faults).unwrap());
        let mut text = "listen = ['127.0.0.1:0']\nwrite = true\nsandbox = false\n[federation]\n\
             deletes = 'all'\ndeadline_seconds = 1\nlisting_deadline_seconds = 1\n\
             return_seconds = 0\n"
            .to_owned();
        for (number, endpoint) in endpoints.iter().enumerate() {
            let url = endpoint.url_of("/d");
            text += &format!("[[endpoints]]\nname = 'e{number}'\nurl = '{url}'\nwrite = true\n");
        }
        let config = FederationConfig::from_toml(&text).unwrap();
        let mut own = hurried(history);
        own.transport.wait_for_refusing = false;
        let client = Client::new(own).unwrap();
        let opened = config.endpoints.iter().map(|settings| {
            let (storage, root) = client.storage(&format!("{}/", settings.url)).unwrap();
            Endpoint::new(settings, storage, root).unwrap()
        });
        let clock = Arc::new(MonotonicClock::start());
        let federation = Federation::new(&config, opened.collect(), clock).unwrap();
        let backend: Arc<dyn Backend> = federation;
        let server = Server::start_with_backend(config.server, backend).unwrap();
        Self { server, _client: client, endpoints }
    }

    /// The endpoint that has a file from the beginning.
    pub(crate) fn endpoint_of(&self, path: &str) -> &MockWebDavServer {
        let has = |it: &&MockWebDavServer| it.bytes(path).is_some();
        let [first, second] = &self.endpoints;
        let is_second = path.bytes().map(usize::from).sum::<usize>() % 2 == 1;
        let usual = if is_second { second } else { first };
        self.endpoints.iter().find(has).unwrap_or(usual)
    }

    pub(crate) fn url_of(&self, path: &str) -> String {
        let [first, _] = &self.endpoints;
        let path = first.url_of(path).split_off(first.origin().len());
        format!("http://{}{path}", self.server.addresses()[0])
    }
}

/// The configuration of a client that loses no time.
pub(crate) fn hurried(history: &History) -> ClientConfig {
    let mut config = ClientConfig::default();
    for retry in [&mut config.transport.retry, &mut config.reader.retry] {
        retry.min_pause = Duration::from_millis(1);
        retry.max_pause = Duration::from_millis(2);
    }
    if history.is_slow() {
        config.transport.first_byte_timeout = SHORT;
        config.transport.no_progress_timeout = SHORT;
    }
    config.transport.max_connections = 4;
    config.transport.tls.system_roots = false;
    config.decode_threads = 1;
    config
}

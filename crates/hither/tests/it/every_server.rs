//! Every known server behaviour, for programs that read through the cache with all prefetchers.

use crate::support::program::{Program, below, content, pick};
use hither::{CacheConfig, Client, ClientConfig};
use hither_netem::random::Random;
use hither_testkit::mock_http::{HttpBehaviour, MockHttpServer, behaviours};

/// The number of workloads per server behaviour.
const WORKLOADS: u64 = 8;

fn client(connections: usize, budget_bytes: u64) -> Client {
    let mut config = ClientConfig::default();
    config.transport.max_connections = connections;
    config.decode_threads = 1;
    config.cache = CacheConfig::with_budget(budget_bytes);
    Client::new(config).unwrap()
}

fn peer(behaviour: &HttpBehaviour, content: &[u8]) -> MockHttpServer {
    let peer = MockHttpServer::start(content.to_vec()).unwrap();
    behaviour.faults.iter().for_each(|(when, fault)| peer.add_fault(*when, fault.clone()));
    peer
}

/// Runs a few programs at the same time.
fn workload(behaviour: &HttpBehaviour, seed: u64) {
    let random = &mut Random::new(seed);
    let size = 1 + below(random, 400_000);
    let content = content(size, random);
    let peer = peer(behaviour, &content);
    let connections = usize::try_from(1 + below(random, 4)).unwrap();
    let client = client(connections, pick(random, vec![20_000, 100_000, 1_000_000, 20_000_000]));
    let what = format!("{}, seed {seed}, {size} bytes", behaviour.name);
    std::thread::scope(|scope| {
        for _ in 0..1 + below(random, 3) {
            let mut random = Random::new(random.next_u64());
            let client = &client;
            let content = &content;
            let what = &*what;
            let peer = &peer;
            scope.spawn(move || {
                let file = client.open(&peer.url()).unwrap();
                Program { client, file: &file, content, what }.run(20, &mut random);
            });
        }
    });
}

#[test]
fn every_server_behaviour_yields_every_byte() {
    for behaviour in behaviours() {
        (0..WORKLOADS).for_each(|seed| workload(&behaviour, seed));
    }
}

//! Misbehaving XRootD servers, unknown or known, with and without checksums: either the bytes are
//! correct, or the error is correct and arrives within the timeouts.

use crate::fixture::{content, network, read, with_connections};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use hither_core::{Endpoint, EndpointStore, ErrorKind, SlotClaim, Source};
use hither_netem::random::Random;
use hither_testkit::mock_xrootd::{
    AffectedReads, BreakPoint, Fault, FaultStage, FaultTrigger, MockXrootdServer, XrootdBehaviour,
    behaviours,
};
use hither_transport::{Location, Network, PageChecksums, TransportConfig, XrootdSource};
use hither_xrd::wire::Redirect;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Number of concurrent reads.
const SIDE_BY_SIDE: usize = 64;
/// The same where timeouts are short: so few that no other read of this test makes a response late.
const WITH_SHORT_TIMEOUTS: usize = 16;

/// A store with the same entry for every server.
#[derive(Debug)]
struct Known(Endpoint);

impl EndpointStore for Known {
    fn get(&self, _origin: &str) -> Option<Endpoint> {
        Some(self.0.clone())
    }

    fn put(&self, _origin: &str, _endpoint: &Endpoint) {}

    fn claim_slot(&self, _origin: &str, _most: usize) -> SlotClaim {
        SlotClaim::Granted(Box::new(()))
    }
}

/// Large enough for several sessions.
const SIZE: usize = 400_000;

fn peer() -> MockXrootdServer {
    MockXrootdServer::start(content(SIZE)).unwrap()
}

fn source_on(network: &Arc<Network>, peer: &MockXrootdServer) -> XrootdSource {
    XrootdSource::new(Location::parse(&peer.url()).unwrap(), Arc::clone(network))
}

/// Returns the endpoint that a client learns.
async fn learned_endpoint() -> Endpoint {
    let peer = peer();
    let source = source_on(&network(with_connections(2)), &peer);
    read(&source, &[0..1]).await.unwrap();
    let endpoint = source.endpoint();
    assert!(endpoint.xrootd.is_some());
    endpoint
}

/// Success, or the error.
type Came = Result<(), (ErrorKind, String)>;

/// A client and the ranges that it reads.
#[derive(Debug, Clone)]
struct Client {
    verify: PageChecksums,
    known: Option<Endpoint>,
    ranges: Vec<Range<u64>>,
    content: Bytes,
}

impl Client {
    fn new(verify: PageChecksums, known: Option<&Endpoint>, ranges: &[Range<u64>]) -> Self {
        let content = content(SIZE).into();
        Self { verify, known: known.cloned(), ranges: ranges.to_vec(), content }
    }

    /// A separate server for this client.
    fn peer(&self) -> MockXrootdServer {
        MockXrootdServer::start(self.content.clone()).unwrap()
    }

    fn config(&self) -> TransportConfig {
        let mut config = with_connections(4);
        config.verify = self.verify;
        config
    }

    fn source(&self, peer: &MockXrootdServer, config: TransportConfig) -> XrootdSource {
        let ledger =
            self.known.clone().map(|endpoint| Arc::new(Known(endpoint)) as Arc<dyn EndpointStore>);
        source_on(&Network::new(config, Handle::current(), ledger), peer)
    }

    /// Reads all ranges, checks every received byte, and returns the outcome.
    async fn read(&self, peer: &MockXrootdServer) -> Result<Came, String> {
        self.read_with(peer, self.config()).await
    }

    async fn read_with(
        &self,
        peer: &MockXrootdServer,
        config: TransportConfig,
    ) -> Result<Came, String> {
        match read(&self.source(peer, config), &self.ranges).await {
            Ok(got) => got.is_exact(&self.content, &self.ranges).map(Ok),
            Err(error) => {
                let text = error.to_string();
                assert!(text.len() > 20 && text.is_ascii(), "{text}");
                Ok(Err((error.kind(), text)))
            }
        }
    }

    fn name(&self) -> String {
        let known = if self.known.is_some() { "known" } else { "unknown" };
        format!("{} ranges, {:?}, {known} server", self.ranges.len(), self.verify)
    }
}

/// Clients that read one range, and clients that read many, for which several sessions are opened.
async fn clients() -> Vec<Client> {
    let known = learned_endpoint().await;
    let one: Vec<_> = std::iter::once(70_000..70_100).collect();
    let many: Vec<_> = (0..60).map(|nth| nth * 6_000 + 5..nth * 6_000 + 5_000).collect();
    let mut clients = Vec::new();
    for ranges in [one, many] {
        for known in [None, Some(&known)] {
            for verify in [PageChecksums::Long, PageChecksums::Always] {
                clients.push(Client::new(verify, known, &ranges));
            }
        }
    }
    clients
}

/// Returns true if a client notices a fault by a timeout only.
fn takes_a_timeout(behaviour: &XrootdBehaviour) -> bool {
    let is_silent = |fault: &Fault| {
        matches!(fault, Fault::Stall(_) | Fault::Unanswered | Fault::Length(..=1000))
    };
    let mut faults = behaviour.faults.iter();
    behaviour.outcome == Err(ErrorKind::Timeout) || faults.any(|(_, _, fault)| is_silent(fault))
}

async fn tried(behaviour: XrootdBehaviour, client: Client) -> Result<(), String> {
    let peer = client.peer();
    for (step, when, fault) in &behaviour.faults {
        peer.add_fault(*step, *when, fault.clone());
    }
    let paged = client.verify == PageChecksums::Always;
    let vector = !paged && client.ranges.len() > 1;
    let concerned = match behaviour.of {
        AffectedReads::Everything => true,
        AffectedReads::Vectors => vector,
        AffectedReads::Runs => !vector,
        AffectedReads::Placed => vector || paged,
        AffectedReads::Pages => paged,
        AffectedReads::Unpaged => !paged,
    };
    let expected = if concerned { behaviour.outcome } else { Ok(()) };
    let what = format!("{}, {}", behaviour.name, client.name());
    let mut config = client.config();
    // Without it, timeouts are so long that none expires because the machine is busy.
    if takes_a_timeout(&behaviour) {
        config.first_byte_timeout = Duration::from_secs(1);
        config.no_progress_timeout = Duration::from_secs(1);
    }
    match client.read_with(&peer, config).await {
        Ok(came) if came.clone().map_err(|(kind, _)| kind) == expected => Ok(()),
        Ok(came) => Err(format!("{what}: {came:?}, expected {expected:?}")),
        Err(wrong) => Err(format!("{what}: {wrong}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_ends_in_the_right_bytes_or_the_right_error() {
    let clients = clients().await;
    let (timed, others): (Vec<_>, Vec<_>) = behaviours().into_iter().partition(takes_a_timeout);
    let mut results = Vec::new();
    for (behaviours, side_by_side) in [(others, SIDE_BY_SIDE), (timed, WITH_SHORT_TIMEOUTS)] {
        let trials = behaviours.into_iter().flat_map(|behaviour| {
            clients.iter().map(move |client| tried(behaviour.clone(), client.clone()))
        });
        let some: Vec<_> = stream::iter(trials).buffer_unordered(side_by_side).collect().await;
        results.extend(some);
    }
    let trials = results.len();
    let wrong: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} of {trials}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Three short ranges: the whole exchange has several hundred bytes.
const SHORT: [Range<u64>; 3] = [0..20, 5_000..5_010, 9_000..9_030];

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_byte() {
    let known = learned_endpoint().await;
    let mut tasks = Vec::new();
    for known in [None, Some(known)] {
        for verify in [PageChecksums::Long, PageChecksums::Always] {
            let client = Client::new(verify, known.as_ref(), &SHORT);
            tasks.push(tokio::spawn(async move {
                let peer = client.peer();
                client.read(&peer).await.unwrap().unwrap();
                let (up, down) = peer.crossed()[0];
                assert!(up > 100 && down > 200, "{up} bytes up, {down} down");
                let points =
                    (0..=up).map(BreakPoint::ToServer).chain((0..=down).map(BreakPoint::ToClient));
                for point in points {
                    peer.clear_faults();
                    peer.add_fault(
                        FaultStage::Connection,
                        FaultTrigger::Nth(0),
                        Fault::Reset(point),
                    );
                    let came = client.read(&peer).await;
                    assert_eq!(came, Ok(Ok(())), "{point:?}, {}", client.name());
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// With checksums no flipped bit in a response to a read changes the result. Responses to login and
/// open have no checksums: after a flip in one of them a read may fail, but no byte is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn any_bit_of_a_response_may_be_flipped() {
    let known = learned_endpoint().await;
    let clients =
        [None, Some(&known)].map(|known| Client::new(PageChecksums::Always, known, &SHORT));
    // The relevant bytes of each response: of a read, these are header, status, a checksum, and
    // data.
    let answers = [
        (FaultStage::Protocol, 8 + 8),
        (FaultStage::Login, 8 + 16),
        (FaultStage::Open, 8 + 12 + 24),
        (FaultStage::Read, 8 + 24 + 4 + 20),
    ];
    let bits =
        answers.into_iter().flat_map(|(step, bytes)| (0..8 * bytes).map(move |bit| (step, bit)));
    let cells = bits.map(|(step, bit)| {
        let client = clients[bit % 2].clone();
        async move {
            let peer = client.peer();
            peer.add_fault(step, FaultTrigger::Nth(0), Fault::FlippedBit(bit));
            let what = format!("bit {bit} of {step:?}, {}", client.name());
            match client.read(&peer).await {
                Ok(Err(error)) if step == FaultStage::Read => Err(format!("{what}: {error:?}")),
                Ok(_) => Ok(()),
                Err(wrong) => Err(format!("{what}: {wrong}")),
            }
        }
    });
    let results: Vec<_> = stream::iter(cells).buffer_unordered(SIDE_BY_SIDE).collect().await;
    let wrong: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn only_damaged_pages_are_requested_again() {
    let peer = peer();
    peer.add_fault(
        FaultStage::Read,
        FaultTrigger::Always,
        Fault::Damaged { every: 5, again: false },
    );
    let ranges: Vec<_> = std::iter::once(1_000..200_000).collect();
    let client = Client::new(PageChecksums::Always, None, &ranges);
    let source = client.source(&peer, client.config());
    let got = read(&source, &client.ranges).await.unwrap();
    got.is_exact(&client.content, &client.ranges).unwrap();
    assert_eq!(got.retries, 0);
    let again: Vec<_> =
        peer.log().into_iter().filter(|it| it.again).flat_map(|it| it.ranges).collect();
    let pages = (0..=48_u64)
        .step_by(5)
        .map(|page| (page * 4096).max(1_000)..((page + 1) * 4096).min(200_000));
    assert_eq!(again, pages.collect::<Vec<_>>());
}

#[tokio::test]
async fn long_runs_are_verified_if_the_server_supports_it_and_short_ones_are_not() {
    let peer = peer();
    let ranges = [0..100, 1_000..2_000, 100_000..400_000];
    let client = Client::new(PageChecksums::Long, Some(&learned_endpoint().await), &ranges);
    read(&client.source(&peer, client.config()), &client.ranges).await.unwrap();
    let names: Vec<_> =
        peer.log().into_iter().filter(|it| !it.ranges.is_empty()).map(|it| it.name).collect();
    assert!(names.contains(&"pgread") && names.contains(&"readv"), "{names:?}");
}

/// A manager redirects to a server that fails in the middle of the read, and then to a working one.
#[tokio::test]
async fn another_server_of_the_cluster_continues() {
    let mut random = Random::new(3);
    for point in [0, 60, 200, 5_000] {
        let (manager, first, second) = (peer(), peer(), peer());
        let to = |peer: &MockXrootdServer| {
            Fault::Elsewhere(Redirect::to(peer.address().ip().to_string(), peer.address().port()))
        };
        manager.add_fault(FaultStage::Open, FaultTrigger::Nth(0), to(&first));
        manager.add_fault(FaultStage::Open, FaultTrigger::From(1), to(&second));
        first.add_fault(
            FaultStage::Connection,
            FaultTrigger::Always,
            Fault::Reset(BreakPoint::ToClient(point)),
        );
        let ranges: Vec<_> =
            (0..40).map(|nth| nth * 8_000..nth * 8_000 + 100 + random.next_u64() % 1_000).collect();
        let client = Client::new(PageChecksums::Long, None, &ranges);
        assert_eq!(client.read(&manager).await, Ok(Ok(())), "{point}");
        let opens: Vec<_> = manager.log().into_iter().filter_map(|it| it.path).collect();
        assert!(opens.last().unwrap().contains("tried=127.0.0.1"), "{opens:?}");
    }
}

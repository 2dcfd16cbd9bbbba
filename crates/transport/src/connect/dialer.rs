//! The dialer: from a URL to a stream on which HTTP or XRootD can begin.
//!
//! First a TCP connection: the name is resolved, its addresses are raced, and where TLS has to pass
//! a proxy, the proxy is asked for a tunnel. Then TLS on that connection. The first step measures
//! the round-trip time, one round trip before the second step ends. This is early enough for the
//! pool to open its other connections, whose handshakes then run concurrently with this one and end
//! when the first response arrives.
//!
//! One timeout covers both steps.

use crate::config::TransportConfig;
use crate::connect::dns::DnsCache;
use crate::connect::egress_filter;
use crate::connect::happy_eyeballs::{RaceWinner, connect_first};
use crate::connect::maybe_tls_stream::MaybeTlsStream;
use crate::connect::metered_stream::{ConnectionMeter, MeteredStream};
use crate::connect::outage::{OutageWait, Outages};
use crate::connect::proxy::Proxy;
use crate::connect::source_addresses::{SourceBalancer, SourceTraffic};
use crate::connect::tcp_info::{SocketRef, TcpInfo};
use crate::connect::tls::{AlpnChoice, TlsClient, TlsErrorText, TlsHandshake, TlsStream};
use crate::connect::tls_upgrade::TlsUpgradeStream;
use crate::connect::tunnel;
use crate::context::MonotonicClock;
use crate::counters::TransferCounters;
use crate::location::Location;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_core::sync::lock;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tracing::{debug, info};

/// The state that all connections of a client share before they exist.
#[derive(Debug)]
pub(crate) struct Dialer {
    addresses: DnsCache,
    outages: Outages,
    clock: MonotonicClock,
    sources: SourceBalancer,
    tls: TlsClient,
    /// Open connections.
    sockets: Mutex<Vec<(IpAddr, Weak<SocketRef>)>>,
}

/// A connection to a server, or to its proxy, on which nothing was sent yet.
#[derive(Debug)]
pub(crate) struct DialedStream {
    pub(crate) stream: MeteredStream,
    /// One round trip to the other end.
    pub(crate) rtt: Duration,
    end: FarEnd,
}

impl DialedStream {
    /// The round trip that the first message belongs to.
    pub(crate) fn round_trip(&self) -> u64 {
        self.end.round_trip
    }
}

/// The address at the other end of a connection.
#[derive(Debug, Clone, Copy)]
struct FarEnd {
    address: SocketAddr,
    /// The server has other addresses to try.
    has_others: bool,
    /// The round trip that the next handshake belongs to.
    round_trip: u64,
    /// The start of the connect timeout.
    started: Instant,
}

impl Dialer {
    pub(crate) fn new(config: &TransportConfig) -> Self {
        Self {
            addresses: DnsCache::new(Arc::clone(&config.resolver)),
            outages: Outages::default(),
            clock: MonotonicClock::start(),
            sources: SourceBalancer::new(&config.sources),
            tls: TlsClient::new(config.tls.clone(), config.credentials.clone()),
            sockets: Mutex::default(),
        }
    }

    /// Connects to the server of `location`. `meter` counts what arrives.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`] if no address can be reached, [`ErrorKind::Timeout`] if none
    /// responds, and the errors of a proxy and of the trusted certificates.
    pub(crate) async fn dial(
        &self,
        location: &Location,
        config: &TransportConfig,
        counters: &TransferCounters,
        meter: &Arc<ConnectionMeter>,
    ) -> Result<DialedStream> {
        let started = Instant::now();
        if let Some(recorder) = meter.recorder() {
            recorder.dialing(location.origin());
        }
        let round_trip = counters.next_round_trip();
        let proxy = config.proxies.to(location);
        let line = async {
            let (host, port) = match proxy {
                Some(proxy) => (proxy.host(), proxy.port()),
                None => (location.host(), location.port()),
            };
            let name =
                proxy.map_or_else(|| location.origin(), |proxy| format!("the proxy {proxy}"));
            let addresses = self.addresses.of(host, port).await?;
            let addresses = egress_filter::passed(config.gate.as_deref(), location, addresses)?;
            let has_others = proxy.is_none() && addresses.len() > 1;
            let attempt =
                |address| self.sources.connect(address, &name, config.receive_buffer_bytes);
            let raced = connect_first(&addresses, attempt).await;
            let won = raced.map_err(|failures| none_answered(&name, failures))?;
            let RaceWinner { address, value: (tcp, rtt, source), passed_over } = won;
            debug!(%name, %address, ?rtt, ?passed_over, "TCP connection established");
            self.addresses.won(host, port, address, &passed_over);
            self.outages.ended(&location.origin());
            if let Some(recorder) = meter.recorder() {
                recorder.connected(rtt);
            }
            let (socket, guard) = SocketRef::to(&tcp);
            lock(&self.sockets).retain(|(_, it)| it.strong_count() > 0);
            lock(&self.sockets).push((address.ip(), Arc::downgrade(&socket)));
            if let Some(source) = source {
                source.watch(&socket, address);
                meter.set_source(source);
            }
            let stream = MeteredStream::new(tcp, guard, Arc::clone(meter));
            Ok::<_, Error>(DialedStream {
                stream,
                rtt,
                end: FarEnd { address, has_others, round_trip, started },
            })
        };
        let line = async {
            if !location.is_tls() {
                return line.await;
            }
            let (prepared, line) = tokio::join!(self.tls.prepare(location), line);
            prepared?;
            let mut line = line?;
            if let Some(proxy) = proxy {
                line.tunnel(proxy, location, config).await?;
                debug!(%proxy, server = %location.origin(), "proxy tunnel opened");
                counters.handshaken(line.end.round_trip, 1);
                line.end.round_trip = counters.next_round_trip();
            }
            Ok(line)
        };
        match tokio::time::timeout(config.connect_timeout, line).await {
            Ok(line) => line,
            Err(_) => {
                Err(out_of_time(location, config, proxy, "it is down, or a firewall drops packets"))
            }
        }
    }

    /// Waits until a server that refused a connection with `error` may be tried again.
    ///
    /// # Errors
    ///
    /// `error`, if it is not a refusal, or the server has refused for too long.
    pub(crate) async fn wait_for_restart(
        &self,
        location: &Location,
        config: &TransportConfig,
        error: Error,
    ) -> Result<()> {
        if !config.wait_for_refusing || !error.is_refused_connection() {
            return Err(error);
        }
        let server = location.origin();
        let was_reached = self.address(location).is_some();
        let timeout = config.connect_timeout;
        let wait = self.outages.refused(&server, was_reached, timeout, &self.clock);
        let Some(OutageWait { pause, begins }) = wait else {
            return Err(error);
        };
        if let Some(longest) = begins {
            // The port may be wrong, which a user sees at once.
            let seconds = longest.as_secs_f64();
            info!(target: "hither_wait", "{error}: trying again for {seconds} s");
        }
        debug!(%server, ?pause, %error, "connection refused, trying again");
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// The address at which the server of `location` was last reached.
    pub(crate) fn address(&self, location: &Location) -> Option<SocketAddr> {
        self.addresses.winner(location.host(), location.port())
    }

    /// The kernel's statistics of the open connections, each with the address of its other end.
    pub(crate) fn tcp_info(&self) -> Vec<(IpAddr, TcpInfo)> {
        let sockets = lock(&self.sockets);
        sockets.iter().filter_map(|(peer, it)| Some((*peer, it.upgrade()?.info()?))).collect()
    }

    /// The traffic of each source address.
    pub(crate) fn source_traffic(&self) -> Vec<SourceTraffic> {
        self.sources.traffic()
    }

    /// The formatter of TLS errors of a server.
    pub(crate) fn explains(&self, location: &Location) -> TlsErrorText {
        self.tls.explains(location)
    }

    /// Starts TLS on a connection to `location`, if its URL requires it. Returns the stream, and
    /// whether the server chose HTTP/2 where `above` offers it.
    ///
    /// # Errors
    ///
    /// The errors of TLS.
    pub(crate) async fn start_tls(
        &self,
        line: DialedStream,
        location: &Location,
        config: &TransportConfig,
        counters: &TransferCounters,
        above: AlpnChoice,
    ) -> Result<(MaybeTlsStream, bool)> {
        let explains = self.explains(location);
        if !location.is_tls() {
            return Ok((MaybeTlsStream::plain(line.stream, explains), false));
        }
        let began = Instant::now();
        let meter = Arc::clone(line.stream.meter());
        let secured = self.handshake(line.stream, line.end, location, config, above).await?;
        counters.secured(began.elapsed());
        if let Some(recorder) = meter.recorder() {
            recorder.secured();
        }
        counters.handshaken(line.end.round_trip, secured.round_trips);
        Ok((MaybeTlsStream::tls(secured.stream, explains), secured.multiplexes))
    }

    /// Starts TLS for XRootD on a connection to `location`, after sending `words` unencrypted.
    /// Returns the stream with the number of its round trips, and the unencrypted response to
    /// `words`, also if TLS failed after it.
    ///
    /// # Errors
    ///
    /// As [`Dialer::start_tls`].
    pub(crate) async fn secure_after(
        &self,
        words: Bytes,
        line: DialedStream,
        location: &Location,
        config: &TransportConfig,
        counters: &TransferCounters,
    ) -> (Result<(TlsStream<TlsUpgradeStream<MeteredStream>>, u64)>, Option<Bytes>) {
        let meter = Arc::clone(line.stream.meter());
        let (stream, answer) = TlsUpgradeStream::new(line.stream, words);
        let began = Instant::now();
        let secured = self.handshake(stream, line.end, location, config, AlpnChoice::Xrootd).await;
        let stream = secured.map(|secured| {
            counters.secured(began.elapsed());
            if let Some(recorder) = meter.recorder() {
                recorder.secured();
            }
            counters.handshaken(line.end.round_trip, secured.round_trips);
            (secured.stream, secured.round_trips)
        });
        (stream, answer.get().cloned())
    }

    async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        end: FarEnd,
        location: &Location,
        config: &TransportConfig,
        above: AlpnChoice,
    ) -> Result<TlsHandshake<S>> {
        let left = config.connect_timeout.saturating_sub(end.started.elapsed());
        let handshake = self.tls.handshake(stream, location, above);
        let secured = tokio::time::timeout(left, handshake).await.unwrap_or_else(|_| {
            let what = "the server accepts connections but does not respond to the TLS handshake";
            Err(out_of_time(location, config, None, what))
        });
        secured.map_err(|error| {
            // Another address of the same name may work.
            let is_down = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout);
            if !(is_down && end.has_others) {
                return error;
            }
            self.addresses.failed(end.address);
            error.with_failure(Failure::Redirected)
        })
    }
}

impl DialedStream {
    async fn tunnel(
        &mut self,
        proxy: &Proxy,
        location: &Location,
        config: &TransportConfig,
    ) -> Result<()> {
        let asked = Instant::now();
        tunnel::open(&mut self.stream, proxy, location, &config.user_agent).await?;
        // The proxy connected to the server in this time.
        self.rtt = asked.elapsed();
        Ok(())
    }
}

fn none_answered(name: &str, failures: Vec<(SocketAddr, Error)>) -> Error {
    let others = failures.len().saturating_sub(1);
    // The error of an address that refuses is more useful than that of one without a route.
    let refused = failures.iter().position(|(_, error)| error.is_refused_connection());
    let first = failures.into_iter().nth(refused.unwrap_or(0));
    let what = || Error::new(ErrorKind::Unavailable, format!("{name} has no address"));
    let error = first.map_or_else(what, |(_, error)| error);
    match others {
        0 => error,
        1 => error.context("neither of 2 addresses responds"),
        others => error.context(format!("none of {} addresses responds", others + 1)),
    }
}

fn out_of_time(
    location: &Location,
    config: &TransportConfig,
    proxy: Option<&Proxy>,
    why: &str,
) -> Error {
    let by = proxy.map(|proxy| format!(" by the proxy {proxy}")).unwrap_or_default();
    Error::new(
        ErrorKind::Timeout,
        format!(
            "cannot connect to {}{by} within {} s: {why}",
            location.origin(),
            config.connect_timeout.as_secs_f64()
        ),
    )
}

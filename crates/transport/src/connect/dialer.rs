//! From a URL to a stream that HTTP can begin on.
//!
//! First a line to the machine at the other end: names are resolved, addresses raced, and where a proxy is in the way of
//! TLS, it is asked for a tunnel. Then TLS over that line. The first of these two steps tells the round-trip time, one
//! round trip before the second is done: enough for the pool to start its other connections, whose handshakes then run
//! beside this one and are ready together with the first answer.
//!
//! One clock runs over both steps.

use crate::config::TransportConfig;
use crate::connect::dns::DnsCache;
use crate::connect::egress_filter;
use crate::connect::happy_eyeballs::{RaceWinner, connect_first};
use crate::connect::maybe_tls_stream::MaybeTlsStream;
use crate::connect::metered_stream::{ConnectionMeter, MeteredStream};
use crate::connect::proxy::Proxy;
use crate::connect::socket;
use crate::connect::tls::{AlpnChoice, TlsClient, TlsErrorText, TlsHandshake, TlsStream};
use crate::connect::tls_upgrade::TlsUpgradeStream;
use crate::connect::tunnel;
use crate::counters::TransferCounters;
use crate::location::Location;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result, Retry};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tracing::debug;

/// Asking again needs no pause: it goes to another machine.
const AT_ONCE: Retry = Retry::SameServer { after: Duration::ZERO };

/// What connections of a client share before they exist.
#[derive(Debug)]
pub(crate) struct Dialer {
    addresses: DnsCache,
    tls: TlsClient,
}

/// A line to a server, or to its proxy, on which nothing has been said yet.
#[derive(Debug)]
pub(crate) struct DialedStream {
    pub(crate) stream: MeteredStream,
    /// One round trip to the other end.
    pub(crate) rtt: Duration,
    end: FarEnd,
}

impl DialedStream {
    /// The flight of what is sent first.
    pub(crate) fn flight(&self) -> u64 {
        self.end.flight
    }
}

/// The machine at the other end of a line.
#[derive(Debug, Clone, Copy)]
struct FarEnd {
    address: SocketAddr,
    /// There are other addresses of the server to try.
    has_others: bool,
    /// The flight of requests that the handshakes from here on belong to.
    flight: u64,
    /// When the first clock started.
    started: Instant,
}

impl Dialer {
    pub(crate) fn new(config: &TransportConfig) -> Self {
        Self {
            addresses: DnsCache::new(Arc::clone(&config.resolver)),
            tls: TlsClient::new(config.tls.clone(), config.credentials.clone()),
        }
    }

    /// A line to the server of `location`. What arrives on it is watched by `tap`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`] if no address can be reached, [`ErrorKind::Timeout`] if none answers, and what a proxy
    /// or the trusted certificates have to say.
    pub(crate) async fn dial(
        &self,
        location: &Location,
        config: &TransportConfig,
        account: &TransferCounters,
        tap: &Arc<ConnectionMeter>,
    ) -> Result<DialedStream> {
        let started = Instant::now();
        let flight = account.next_flight();
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
            let attempt = |address| socket::connect(address, &name, config.receive_buffer_bytes);
            let raced = connect_first(&addresses, attempt).await;
            let won = raced.map_err(|failures| none_answered(&name, failures))?;
            let RaceWinner { address, value: (tcp, rtt), passed_over } = won;
            debug!(%name, %address, ?rtt, ?passed_over, "TCP connection established");
            self.addresses.won(host, port, address, &passed_over);
            let stream = MeteredStream::new(tcp, Arc::clone(tap));
            Ok::<_, Error>(DialedStream {
                stream,
                rtt,
                end: FarEnd { address, has_others, flight, started },
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
                account.handshaken(line.end.flight, 1);
                line.end.flight = account.next_flight();
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

    /// The address at which the server of `location` was reached last.
    pub(crate) fn address(&self, location: &Location) -> Option<SocketAddr> {
        self.addresses.winner(location.host(), location.port())
    }

    /// What puts failures of TLS to a server into words.
    pub(crate) fn explains(&self, location: &Location) -> TlsErrorText {
        self.tls.explains(location)
    }

    /// A stream for HTTP over a line to `location`. Where `above` leaves the server a choice, returns whether it has chosen HTTP/2.
    ///
    /// # Errors
    ///
    /// What is wrong with TLS there.
    pub(crate) async fn start_tls(
        &self,
        line: DialedStream,
        location: &Location,
        config: &TransportConfig,
        account: &TransferCounters,
        above: AlpnChoice,
    ) -> Result<(MaybeTlsStream, bool)> {
        let explains = self.explains(location);
        if !location.is_tls() {
            return Ok((MaybeTlsStream::plain(line.stream, explains), false));
        }
        let shaken = self.shake(line.stream, line.end, location, config, above).await?;
        account.handshaken(line.end.flight, shaken.flights);
        Ok((MaybeTlsStream::tls(shaken.stream, explains), shaken.multiplexes))
    }

    /// TLS for XRootD over a line to `location`, on which `words` are said in clear first. Returns how many flights it took, and
    /// what was answered to the words in clear, also if TLS failed after it.
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
        account: &TransferCounters,
    ) -> (Result<(TlsStream<TlsUpgradeStream<MeteredStream>>, u64)>, Option<Bytes>) {
        let (stream, answer) = TlsUpgradeStream::new(line.stream, words);
        let shaken = self.shake(stream, line.end, location, config, AlpnChoice::Xrootd).await;
        let stream = shaken.map(|shaken| {
            account.handshaken(line.end.flight, shaken.flights);
            (shaken.stream, shaken.flights)
        });
        (stream, answer.get().cloned())
    }

    async fn shake<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        end: FarEnd,
        location: &Location,
        config: &TransportConfig,
        above: AlpnChoice,
    ) -> Result<TlsHandshake<S>> {
        let left = config.connect_timeout.saturating_sub(end.started.elapsed());
        let handshake = self.tls.handshake(stream, location, above);
        let shaken = tokio::time::timeout(left, handshake).await.unwrap_or_else(|_| {
            let what = "the server accepts connections but does not respond to the TLS handshake";
            Err(out_of_time(location, config, None, what))
        });
        shaken.map_err(|error| {
            // Whatever is wrong with this machine, another one of the same name may be well.
            let sick = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout);
            if !(sick && end.has_others) {
                return error;
            }
            self.addresses.failed(end.address);
            error.with_retry(AT_ONCE)
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
        // The proxy has been to the server and back.
        self.rtt = asked.elapsed();
        Ok(())
    }
}

fn none_answered(name: &str, failures: Vec<(SocketAddr, Error)>) -> Error {
    let others = failures.len().saturating_sub(1);
    let first = failures.into_iter().next();
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

//! The DNS cache, and the order in which the addresses of a server are tried.
//!
//! An address that lost a [race](crate::connect::happy_eyeballs) is tried last for [`BAD_FOR`], and
//! the winner is tried first: so all connections to a name lead to the same machine, whose
//! responses are consistent, and a dead address costs time only once. Both are kept per client. The
//! addresses of a name are kept for [`FRESH_FOR`], so that 64 connections need one lookup.

use futures_core::future::BoxFuture;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;
use tracing::trace;

/// The time for which a dead address is tried last.
const BAD_FOR: Duration = Duration::from_secs(600);

/// The time for which the addresses of a name are used again. Names that follow a failover have a
/// lifetime of 30 to 60 s.
const FRESH_FOR: Duration = Duration::from_secs(30);

/// The maximum number of names and of addresses; beyond it the cache is cleared.
const MAX_REMEMBERED: usize = 1024;

/// A resolver of host names.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// The addresses of `host` with `port`, best first.
    ///
    /// # Errors
    ///
    /// The error of the system for a name that it cannot resolve.
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>>;
}

/// The resolver of the system (`getaddrinfo`), which sorts by RFC 6724.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// The addresses of names, and how well they worked.
#[derive(Debug)]
pub(crate) struct DnsCache {
    resolver: Arc<dyn Resolve>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    resolved: HashMap<(String, u16), (Instant, Vec<SocketAddr>)>,
    bad: HashMap<SocketAddr, Instant>,
    winners: HashMap<(String, u16), SocketAddr>,
}

impl DnsCache {
    pub(crate) fn new(resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, known: Mutex::default() }
    }

    /// The addresses of a host in the order in which to try them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`] if the name does not resolve.
    pub(crate) async fn of(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>> {
        let found = match host.parse::<IpAddr>() {
            Ok(address) => return Ok(vec![SocketAddr::new(address, port)]),
            Err(_) => self.resolve(host, port).await?,
        };
        Ok(self.known().in_order(host, port, found))
    }

    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>> {
        let key = (host.to_owned(), port);
        if let Some((at, found)) = self.known().resolved.get(&key)
            && at.elapsed() < FRESH_FOR
        {
            return Ok(found.clone());
        }
        let found = self.resolver.resolve(host, port).await.map_err(|error| {
            let what = format!("host {host:?} does not resolve: check the name and the network");
            Error::new(ErrorKind::Unavailable, what).with_source(error)
        })?;
        trace!(host, addresses = ?found, "name resolved");
        if found.is_empty() {
            return Err(Error::new(ErrorKind::Unavailable, format!("{host} has no address")));
        }
        let mut known = self.known();
        if known.resolved.len() >= MAX_REMEMBERED {
            known.resolved.clear();
        }
        known.resolved.insert(key, (Instant::now(), found.clone()));
        Ok(found)
    }

    /// Records the winner of a race.
    pub(crate) fn won(
        &self,
        host: &str,
        port: u16,
        winner: SocketAddr,
        passed_over: &[SocketAddr],
    ) {
        let mut known = self.known();
        known.bad.remove(&winner);
        known.blame(passed_over);
        if known.winners.len() >= MAX_REMEMBERED {
            known.winners.clear();
        }
        known.winners.insert((host.to_owned(), port), winner);
    }

    /// The last winner.
    pub(crate) fn winner(&self, host: &str, port: u16) -> Option<SocketAddr> {
        self.known().winners.get(&(host.to_owned(), port)).copied()
    }

    /// Records an address that accepts connections but cannot be used.
    pub(crate) fn failed(&self, address: SocketAddr) {
        self.known().blame(&[address]);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

impl Known {
    fn blame(&mut self, addresses: &[SocketAddr]) {
        let now = Instant::now();
        if self.bad.len() >= MAX_REMEMBERED {
            self.bad.retain(|_, since| now.duration_since(*since) < BAD_FOR);
        }
        let room = MAX_REMEMBERED.saturating_sub(self.bad.len());
        self.bad.extend(addresses.iter().take(room).map(|address| (*address, now)));
    }

    /// Sorts addresses: families alternate, beginning with that of the first address (RFC 8305
    /// section 4); then the last winner moves to the front, and dead addresses to the end.
    fn in_order(&self, host: &str, port: u16, found: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let mut addresses = interleaved(found);
        let is_bad = |address: &SocketAddr| {
            self.bad.get(address).is_some_and(|since| since.elapsed() < BAD_FOR)
        };
        let winner = self.winners.get(&(host.to_owned(), port));
        addresses.sort_by_key(|address| (is_bad(address), Some(address) != winner));
        addresses
    }
}

fn interleaved(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let mut first = first.into_iter();
    let mut second = second.into_iter();
    let mut mixed = Vec::new();
    loop {
        match (first.next(), second.next()) {
            (None, None) => return mixed,
            (one, other) => mixed.extend(one.into_iter().chain(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Vec<SocketAddr> {
        text.split_whitespace().map(|one| SocketAddr::new(one.parse().unwrap(), 80)).collect()
    }

    /// A resolver that returns the same addresses and counts its calls.
    #[derive(Debug)]
    struct Scripted(Vec<SocketAddr>, std::sync::atomic::AtomicUsize);

    impl Resolve for Scripted {
        fn resolve<'a>(
            &'a self,
            _: &'a str,
            _: u16,
        ) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(self.0.clone())))
        }
    }

    fn book(text: &str) -> (DnsCache, Arc<Scripted>) {
        let scripted = Arc::new(Scripted(addresses(text), std::sync::atomic::AtomicUsize::new(0)));
        (DnsCache::new(Arc::<Scripted>::clone(&scripted)), scripted)
    }

    #[tokio::test(start_paused = true)]
    async fn address_families_alternate_from_the_first_address_on() {
        let (book, _) = book("2001:db8::1 2001:db8::2 2001:db8::3 192.0.2.1 192.0.2.2");
        assert_eq!(
            book.of("host", 80).await.unwrap(),
            addresses("2001:db8::1 192.0.2.1 2001:db8::2 192.0.2.2 2001:db8::3")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_address_is_tried_last_for_ten_minutes() {
        let (book, _) = book("192.0.2.1 192.0.2.2 192.0.2.3");
        let all = book.of("host", 80).await.unwrap();
        book.failed(all[0]);
        assert_eq!(book.of("host", 80).await.unwrap(), addresses("192.0.2.2 192.0.2.3 192.0.2.1"));
        tokio::time::advance(BAD_FOR).await;
        assert_eq!(book.of("host", 80).await.unwrap(), all);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_winner_is_tried_first_even_if_it_failed_before() {
        let (book, _) = book("192.0.2.1 192.0.2.2 192.0.2.3");
        let all = book.of("host", 80).await.unwrap();
        book.failed(all[2]);
        book.won("host", 80, all[2], &all[..1]);
        assert_eq!(book.of("host", 80).await.unwrap(), addresses("192.0.2.3 192.0.2.2 192.0.2.1"));
        // Another port is another server.
        let first = book.of("host", 81).await.unwrap()[0];
        assert_eq!(first, all[1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_resolved_once_for_many_connections() {
        let (book, resolver) = book("192.0.2.1");
        let asked = || resolver.1.load(std::sync::atomic::Ordering::Relaxed);
        for _ in 0..64 {
            book.of("host", 80).await.unwrap();
        }
        assert_eq!(asked(), 1);
        tokio::time::advance(FRESH_FOR).await;
        book.of("host", 80).await.unwrap();
        assert_eq!(asked(), 2);
    }

    #[tokio::test]
    async fn an_address_needs_no_resolver() {
        let (book, resolver) = book("");
        let found = book.of("::1", 443).await.unwrap();
        assert_eq!(found, [SocketAddr::new("::1".parse().unwrap(), 443)]);
        assert_eq!(resolver.1.load(std::sync::atomic::Ordering::Relaxed), 0);
        assert!(book.of("host", 80).await.unwrap_err().to_string().contains("no address"));
    }
}

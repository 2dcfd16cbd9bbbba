//! The addresses of servers, and which of them to try first.
//!
//! An address that was passed over in a [race](crate::racing) goes to the end of the line for [`BAD_FOR`], and one that
//! won goes to its head: all connections to a name then lead to one machine of several, whose answers fit together, and a
//! dead one is met once. Both are kept per client. What a name resolves to is kept for [`FRESH_FOR`], so that 64
//! connections ask once.

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

/// How long a dead address is tried last.
const BAD_FOR: Duration = Duration::from_secs(600);

/// How long what a name resolved to is used again. Names that are moved on failure live for 30 to 60 s.
const FRESH_FOR: Duration = Duration::from_secs(30);

/// Most names and most addresses to remember; beyond it the memory starts anew.
const MAX_REMEMBERED: usize = 1024;

/// Finds the addresses of a name.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// The addresses of `host` with `port`, best first.
    ///
    /// # Errors
    ///
    /// What the system says of a name that it cannot resolve.
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

/// What is known of addresses.
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

    /// A race was won.
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

    /// Who won last.
    pub(crate) fn winner(&self, host: &str, port: u16) -> Option<SocketAddr> {
        self.known().winners.get(&(host.to_owned(), port)).copied()
    }

    /// A machine accepts connections and is of no use.
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

    /// Families take turns, beginning with that of the first address (RFC 8305 section 4); then the winner of last time
    /// moves to the front and the bad ones to the end.
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

    /// Answers with the same addresses, and counts how often.
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
    async fn families_take_turns_from_the_resolvers_first_on() {
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
    async fn the_winner_of_last_time_is_first_and_forgiven() {
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

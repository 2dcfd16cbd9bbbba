//! Session tickets, with which the next handshake is shorter.
//!
//! A ticket saves the bytes of the certificates and the signature. It is used once (RFC 8446
//! appendix C.4). Servers give one or two per connection, and a client that lost all of its 64
//! connections to a server opens as many again: hence one ticket for each, where rustls's own store
//! keeps eight. Tickets stay in memory; `docs/decisions/0006` explains why they are not on disk.

use hither_core::sync::lock;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard};

/// The maximum number of tickets of one server.
const MAX_TICKETS: usize = 64;
/// The maximum number of servers. The oldest is evicted first.
const MAX_SERVERS: usize = 256;

/// Tickets and key groups by server name.
#[derive(Default)]
pub(crate) struct Tickets {
    servers: Mutex<Servers>,
}

#[derive(Default)]
struct Servers {
    known: HashMap<ServerName<'static>, Session>,
    oldest_first: VecDeque<ServerName<'static>>,
}

#[derive(Default)]
struct Session {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Tickets {
    fn servers(&self) -> MutexGuard<'_, Servers> {
        lock(&self.servers)
    }
}

impl Servers {
    fn session(&mut self, name: ServerName<'static>) -> &mut Session {
        if !self.known.contains_key(&name) {
            if self.known.len() >= MAX_SERVERS
                && let Some(oldest) = self.oldest_first.pop_front()
            {
                self.known.remove(&oldest);
            }
            self.oldest_first.push_back(name.clone());
        }
        self.known.entry(name).or_default()
    }
}

// Tickets are secrets.
impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tickets({} servers)", self.servers().known.len())
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.servers().session(server_name).group = Some(group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.servers().known.get(&server_name.to_owned())?.group
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.servers().session(server_name).tls12 = Some(value);
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.servers().known.get(&server_name.to_owned())?.tls12.clone()
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        if let Some(session) = self.servers().known.get_mut(server_name) {
            session.tls12 = None;
        }
    }

    fn insert_tls13_ticket(
        &self,
        server_name: ServerName<'static>,
        value: Tls13ClientSessionValue,
    ) {
        let mut servers = self.servers();
        let tickets = &mut servers.session(server_name).tls13;
        if tickets.len() >= MAX_TICKETS {
            tickets.pop_front();
        }
        tickets.push_back(value);
    }

    fn take_tls13_ticket(
        &self,
        server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        // The latest ticket has the longest lifetime left.
        self.servers().known.get_mut(server_name)?.tls13.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_servers_is_bounded_and_forgets_the_oldest() {
        let tickets = Tickets::default();
        let name = |n: usize| ServerName::try_from(format!("host{n}.example")).unwrap();
        for n in 0..=MAX_SERVERS {
            tickets.set_kx_hint(name(n), NamedGroup::X25519);
        }
        assert_eq!(tickets.kx_hint(&name(0)), None);
        assert_eq!(tickets.kx_hint(&name(MAX_SERVERS)), Some(NamedGroup::X25519));
        let servers = tickets.servers();
        assert_eq!((servers.known.len(), servers.oldest_first.len()), (MAX_SERVERS, MAX_SERVERS));
    }
}

//! Connections: DNS, proxies, TCP and TLS.
//!
//! [`dialer`] leads from a URL to a stream. It uses [`dns`] for addresses, [`egress_filter`] for
//! the check that they are allowed, [`happy_eyeballs`], [`source_addresses`] and [`socket`] for
//! TCP, [`proxy`] and [`tunnel`] where a proxy is configured, and [`tls`]. [`outage`] limits the
//! wait for a server that refuses connections.

pub(crate) mod dialer;
pub(crate) mod dns;
pub(crate) mod egress_filter;
pub(crate) mod happy_eyeballs;
pub(crate) mod low_water;
pub(crate) mod maybe_tls_stream;
pub(crate) mod metered_stream;
pub(crate) mod outage;
pub(crate) mod proxy;
pub(crate) mod socket;
pub(crate) mod source_addresses;
pub(crate) mod tcp_info;
pub(crate) mod tls;
pub(crate) mod tls_upgrade;
pub(crate) mod tunnel;

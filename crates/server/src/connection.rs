//! Client connections: TCP, TLS and HTTP, and their timeouts.

pub(crate) mod acceptor;
pub(crate) mod client_authorities;
pub(crate) mod client_verifier;
pub(crate) mod host;
pub(crate) mod incoming_body;
pub(crate) mod monitor;
pub(crate) mod peer;
pub(crate) mod rate_check;
pub(crate) mod socket_options;
pub(crate) mod table;
pub(crate) mod timeout_stream;
pub(crate) mod tls;

//! Connections: name resolution, TCP, TLS, HTTP/2.

mod dialing;
mod http2;
mod http2_server;
mod tls;

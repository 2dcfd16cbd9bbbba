//! Files on HTTP servers.

mod broken_connections;
mod changed_files;
mod counted_sizes;
mod credentials;
mod errors;
mod half_sent;
mod invalid_responses;
mod limits;
mod random;
mod redirects;
mod requests;
mod responses;
mod server_behaviours;
mod tails;
mod timeouts;

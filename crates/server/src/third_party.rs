//! Third-party copy over HTTP, as WLCG sites do it: a client has two servers move a file between
//! them, and watches.
//!
//! A `COPY` is sent to one of the two, the active one. With `Source` it fetches the file from there
//! and keeps it under the path of the request (a *pull*, [`pull`]); with a `Destination` on another
//! server it sends the file at that path there (a *push*, [`push`]). `TransferHeader...` fields are
//! passed on to the other server, mostly a token. The response is 202 immediately, and its body
//! lasts as long as the copy ([`perf_markers`]): its last line is the outcome.
//!
//! **Errors known before the copy are a status**: the client has no permission, the host is not
//! allowed, the file does not exist, or, if the other server reports a size, there is no space. So
//! the other server gets a request first, for a bounded time ([`copier`]).
//!
//! **A pull** is a copy of `hither-transfer` into an unnamed file: with the same connections,
//! workers, retries and checks as `hither cp`. The file gets its path when it is complete and has
//! the checksum that the source reports. An error before that leaves nothing. **A push** is one PUT
//! to the final path, since that is what the scopes of grid tokens allow. A server that writes PUTs
//! in place keeps a part of the file when one is interrupted, so a file that did not exist before
//! is removed again.
//!
//! **When the client disconnects, the copy ends**: its response is dropped, and with it the work.

mod checksum_comparison;
pub(crate) mod cidr;
pub(crate) mod copier;
mod copy_request;
mod copy_slot;
mod egress_rules;
mod perf_markers;
pub(crate) mod pull;
mod pull_target;
pub(crate) mod push;
mod remote;
pub(crate) mod settings;
mod stall_watchdog;

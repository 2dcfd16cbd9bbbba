//! Open-ahead: files are opened before they are used, in parallel, without a change of the program.
//!
//! Opening a remote file takes at least one round trip: size, validator, first bytes. A program
//! that opens a thousand files one after the other waits for a thousand round trips, unless they
//! run in the background, as in `XrdClient`'s parallel open of 2006. So [`crate::Client::open`]
//! returns at once.
//!
//! - A single file is not opened ahead: the requests of its reads are the only ones.
//! - As soon as a file is opened while the previous file of the same server is unused, both are
//!   opened in the background, and so are all that follow. A program that opens, reads and closes
//!   file after file gains nothing from that and loses nothing.
//!
//! **Parts.** `queue` has a queue per server, and the memory limit. `task` is the state machine of
//! one file, `fetch` its requests, `prefetched` the result: size, validator, head and tail.
//! `access_pattern` finds the ranges that the program reads of successive files; `folder` has the
//! pattern of one folder. `gate` delays read-ahead of files that were opened ahead. `open_many`
//! hands out files in the order of completion.
//!
//! **Who waits.** The first use of a file waits for its opening. If that has not started, it starts
//! at once, whatever the queue. A file that is dropped while it is queued is not opened. An error
//! is reported at the first use.
//!
//! **Bounds.** At most as many files of a server are being opened as there may be connections:
//! requests never queue for a connection, so a file that the program waits for is next. Files are
//! opened in the order in which the program opened them. Prefetched bytes are limited over all
//! files (64 MiB); beyond that no file is opened ahead until files are dropped, and a file that the
//! program waits for keeps only size and validator.
//!
//! **Access patterns.** The ranges that the program reads of the first files of a folder are
//! fetched with the ends of the files that follow. Files that are open and unused at that time get
//! them too, before further files are opened.
//!
//! **Slow files.** A file that the server has to make ready first (202, or 503 with `Retry-After`)
//! leaves its turn to the next, and is queued again after the time that the server has named.
//! Transient errors (a broken connection) are retried in the same way, four times at most.

pub(crate) mod access_pattern;
pub(crate) mod fetch;
pub(crate) mod folder;
pub(crate) mod gate;
pub(crate) mod open_many;
pub(crate) mod prefetched;
pub(crate) mod queue;
pub(crate) mod task;

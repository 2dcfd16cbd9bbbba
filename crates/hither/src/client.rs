//! The client: the resources that files share.
//!
//! A [`Client`] owns one runtime for I/O, one pool of threads for decoding (which never runs on the
//! I/O threads: a busy task would delay the sockets), the connections, the transfer counters and
//! the store. Clients share nothing.

pub(crate) mod checksum;
pub(crate) mod config;
pub(crate) mod config_file;
pub(crate) mod context;
pub(crate) mod credentials;
pub(crate) mod memory;
pub(crate) mod mirrors;
pub(crate) mod options;
pub(crate) mod proxies;
pub(crate) mod put;
pub(crate) mod runtime;
pub(crate) mod staging;
pub(crate) mod stat;
pub(crate) mod storage_path;
pub(crate) mod write_behind;
pub(crate) mod xrootd;

use crate::Report;
use crate::open_ahead::queue::OpenAheadQueue;
use config::ClientConfig;
use context::ClientContext;
use hither_core::error::{Error, ErrorKind, Result};
use hither_read::cache::file::ReadTotals;
use hither_transport::{SourceTraffic, TransferCounters, TransferTotals};
use std::sync::Arc;
use std::time::Duration;

/// Opens files and runs queries.
#[derive(Debug)]
pub struct Client {
    pub(crate) context: Arc<ClientContext>,
    pub(crate) open_ahead: Arc<OpenAheadQueue>,
    /// None only while this is dropped.
    running: Option<tokio::runtime::Runtime>,
}

/// Threads that drive sockets. Parsing and passing on 10 Gbit/s takes less than one.
const IO_THREADS: usize = 2;
/// The time after which the end of a client leaves threads behind that wait for a disk.
const END_TIMEOUT: Duration = Duration::from_secs(5);

impl Client {
    /// Creates a client. The client works without a store that cannot be opened;
    /// [`Client::store_error`] has the reason.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Local`] if threads cannot be started, or the trace file cannot be written.
    pub fn new(config: ClientConfig) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .thread_name("hither-io")
            .enable_all()
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::Local, format!("cannot start I/O threads: {error}"))
            })?;
        let context = Arc::new(ClientContext::new(config, runtime.handle())?);
        let open_ahead = OpenAheadQueue::new(runtime.handle().clone());
        Ok(Self { context, open_ahead, running: Some(runtime) })
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &ClientConfig {
        &self.context.config
    }

    /// The transfer counters of all files of this client.
    #[must_use]
    pub fn counters(&self) -> &TransferCounters {
        self.context.counters()
    }

    /// The report of everything that was read as bytes, by [`RemoteFile::read_at`] and its
    /// variants. Requests and bytes are those of the whole client; times, retries and replicas are
    /// left empty.
    ///
    /// [`RemoteFile::read_at`]: crate::RemoteFile::read_at
    #[must_use]
    pub fn report(&self) -> Report {
        let all = Report::between(&TransferTotals::default(), &self.counters().totals());
        let reads = self.reads();
        Report { bytes_used: reads.bytes_used, reads: reads.into(), ..all }
    }

    /// Hits and misses of reads through the cache, and the use of prefetched bytes.
    #[must_use]
    pub fn reads(&self) -> ReadTotals {
        self.context.cache.totals()
    }

    /// Writes the part of the trace that is still in memory. The client does so about once a
    /// second, and when it and its files are dropped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Local`] if the trace could not be written, now or before; the trace ends there.
    pub fn flush_trace(&self) -> Result<()> {
        self.context.trace.as_ref().map_or(Ok(()), |trace| trace.flush())
    }

    /// The reason why nothing is stored although a store was configured.
    #[must_use]
    pub fn store_error(&self) -> Option<&Error> {
        self.context.store_error.as_ref()
    }

    /// Changes the maximum number of connections to a server, in place of
    /// [`TransportConfig::max_connections`](hither_transport::TransportConfig::max_connections).
    pub(crate) fn set_max_connections(&self, connections: usize) {
        self.context.network.set_max_connections(connections);
    }

    /// The traffic of each source address that the client was given.
    #[must_use]
    pub fn source_traffic(&self) -> Vec<SourceTraffic> {
        self.context.network.source_traffic()
    }

    /// Runs a future on the current thread, with the client's runtime, and waits for it.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime().block_on(future)
    }
}

/// Saves what unfinished and short reads have learned about servers. Waits a few seconds at most
/// for data that is being written to disk, and for other calls that block a thread.
impl Drop for Client {
    fn drop(&mut self) {
        self.context.network.remember_all();
        self.context.writes.flush();
        // Dropped, it would wait for blocked threads without limit.
        if let Some(runtime) = self.running.take() {
            runtime.shutdown_timeout(END_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_testkit::waiting::wait_until;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn the_end_of_a_client_does_not_wait_for_a_thread_that_is_blocked() {
        let client = Client::new(ClientConfig::default()).unwrap();
        let (begins, begun) = channel();
        let (release, blocked) = channel::<()>();
        drop(client.runtime().spawn_blocking(move || {
            begins.send(()).unwrap();
            let _released = blocked.recv();
        }));
        begun.recv().unwrap();
        let (ends, ended) = channel();
        thread::spawn(move || {
            drop(client);
            ends.send(()).unwrap();
        });
        assert!(wait_until(|| ended.try_recv().is_ok()), "it is waited for");
        drop(release);
    }
}

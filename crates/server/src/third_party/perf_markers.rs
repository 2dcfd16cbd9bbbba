//! The progress report of a third-party copy, as text that gfal2, davix and FTS read.
//!
//! ```text
//! Perf Marker
//!     Timestamp: 1360578938
//!     Stripe Index: 0
//!     Stripe Bytes Transferred: 49397760
//!     Total Stripe Count: 1
//!     RemoteConnections: tcp:192.0.2.1:443
//! End
//! success: Created
//! ```
//!
//! A marker comes every few seconds, and one line at the end, `success: …` or `failure: …`; a text
//! without that line means that the copy failed. A marker counts bytes that are on disk here, or
//! have reached the other machine ([`CopyProgress`]).
//!
//! A client that does not read blocks nothing: markers for which there is no room are dropped. When
//! a client disconnects, its response is dropped, which ends the copy.

use crate::response::body::ChunkStream;
use crate::third_party::copy_slot::CopySlot;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use hither_core::error::{Error, Result};
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tracing::Instrument;

/// The media type that dCache introduced for this text.
pub(crate) const TYPE: &str = "text/perf-marker-stream";
/// The maximum number of markers that wait for a client that does not read.
const MAX_WAITING: usize = 8;
/// The maximum length of a line: davix reads 1,024 bytes.
const MAX_LINE: usize = 900;

/// The progress of a copy.
pub(crate) trait CopyProgress: Send + Sync {
    /// Counts the bytes that have arrived at the target; may wait for the disk.
    fn count(&self) -> BoxFuture<'static, u64>;
    /// The address of the other server.
    fn address(&self) -> Option<SocketAddr>;
}

/// The chunks of a report.
struct PerfMarkerStream(mpsc::Receiver<Bytes>);

impl Stream for PerfMarkerStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(Ok))
    }
}

/// A copy whose progress is reported.
pub(crate) struct MarkedCopy<W, C> {
    /// Moves the file, and returns the number of bytes moved.
    pub(crate) work: W,
    /// Runs after the work failed or was cancelled.
    pub(crate) clean_up: C,
    pub(crate) progress: Arc<dyn CopyProgress>,
    /// The time between two markers.
    pub(crate) interval: Duration,
    pub(crate) slot: CopySlot,
}

/// Runs the work in the background, and returns the report of it.
pub(crate) fn run_reported<W, C>(copy: MarkedCopy<W, C>) -> ChunkStream
where
    W: Future<Output = Result<u64>> + Send + 'static,
    C: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let copying = async move {
        let MarkedCopy { work, clean_up, progress, interval, slot } = copy;
        let outcome = follow(Box::pin(work), &*progress, interval, &sender).await;
        // Everything that the work held has been dropped here.
        match outcome {
            Some(outcome) => {
                if outcome.is_err() {
                    clean_up.await;
                }
                slot.finish(&outcome);
                let mut text = String::new();
                if let Ok(bytes) = outcome {
                    text = marker(bytes, progress.address());
                }
                text.push_str(&last_line(&outcome));
                // Waits for the client without a limit.
                drop(sender.send(Bytes::from(text)).await);
            }
            None => {
                clean_up.await;
                drop(slot);
            }
        }
    };
    tokio::spawn(copying.in_current_span());
    ChunkStream::new(Box::pin(PerfMarkerStream(receiver)), None)
}

/// The report of a copy that failed before it began.
pub(crate) fn failure(error: Error) -> Bytes {
    Bytes::from(last_line(&Err(error)))
}

/// Sends markers until the work ends; returns none if the client disconnects before.
async fn follow(
    work: impl Future<Output = Result<u64>> + Send,
    progress: &dyn CopyProgress,
    interval: Duration,
    sender: &mpsc::Sender<Bytes>,
) -> Option<Result<u64>> {
    let mut work = pin!(work);
    let mut tick = tokio::time::interval(interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut counting: Option<BoxFuture<'static, u64>> = None;
    let mut counted = 0;
    loop {
        let counts = async {
            match &mut counting {
                Some(counting) => counting.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            outcome = &mut work => return Some(outcome),
            () = sender.closed() => return None,
            bytes = counts => {
                counting = None;
                counted = bytes;
                // Dropped if there is no room.
                let _ = sender.try_send(Bytes::from(marker(counted, progress.address())));
            }
            _ = tick.tick() => match &counting {
                None => counting = Some(progress.count()),
                // The disk is slow: repeats the last count, to show that the copy continues.
                Some(_) => {
                    let _ = sender.try_send(Bytes::from(marker(counted, progress.address())));
                }
            },
        }
    }
}

fn marker(bytes: u64, address: Option<SocketAddr>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut text = format!(
        "Perf Marker\n    Timestamp: {now}\n    Stripe Index: 0\n    Stripe Bytes Transferred: {bytes}\n    Total Stripe Count: 1\n"
    );
    if let Some(address) = address {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    RemoteConnections: tcp:{address}");
    }
    text.push_str("End\n");
    text
}

fn last_line(outcome: &Result<u64>) -> String {
    match outcome {
        Ok(_) => "success: Created\n".to_owned(),
        Err(error) => format!("failure: {}\n", one_line(&error.to_string())),
    }
}

/// Makes any text fit into one line.
pub(crate) fn one_line(text: &str) -> String {
    let plain = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line = String::new();
    for c in plain {
        if line.len() + c.len_utf8() > MAX_LINE {
            break;
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitoring::copy_counters::{CopyCounters, CopyTotals};
    use crate::third_party::copier::ThirdPartyCopier;
    use crate::third_party::copy_slot::CopyDirection;
    use bytes::Buf;
    use futures_util::StreamExt;
    use hither_core::error::ErrorKind;
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::runtime::Handle;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A file that grows by one byte between two counts.
    #[derive(Default)]
    struct Growing(AtomicU64);

    impl CopyProgress for Growing {
        fn count(&self) -> BoxFuture<'static, u64> {
            let bytes = self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(bytes))
        }

        fn address(&self) -> Option<SocketAddr> {
            Some("[::ffff:192.0.2.1]:443".parse().unwrap())
        }
    }

    /// The report of `work`, and its counters.
    fn report(
        work: impl Future<Output = Result<u64>> + Send + 'static,
        clean_up: impl Future<Output = ()> + Send + 'static,
    ) -> (ChunkStream, Arc<CopyCounters>) {
        let copier =
            ThirdPartyCopier::open(Default::default(), Path::new("."), Handle::current()).unwrap();
        let counters = Arc::default();
        let slot = CopySlot::new(&counters, CopyDirection::Pull, copier.slots.take("a").unwrap());
        let progress = Arc::new(Growing::default());
        let copy = MarkedCopy { work, clean_up, progress, interval: MINUTE, slot };
        (run_reported(copy), counters)
    }

    async fn read(mut report: ChunkStream) -> String {
        let mut text = Vec::new();
        while let Some(chunk) = report.chunks.next().await {
            text.extend_from_slice(chunk.unwrap().chunk());
        }
        String::from_utf8(text).unwrap()
    }

    fn counted(text: &str) -> Vec<u64> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("Stripe Bytes Tr"));
        lines.map(|line| line.split(' ').next_back().unwrap().parse().unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn markers_come_every_interval_and_the_outcome_at_the_end() {
        let work = async {
            tokio::time::sleep(MINUTE * 5 / 2).await;
            Ok(77)
        };
        let (report, counters) = report(work, std::future::ready(()));
        let text = read(report).await;
        assert_eq!(counted(&text), [0, 1, 2, 77]);
        assert!(text.starts_with("Perf Marker\n    Timestamp: "), "{text}");
        assert!(text.contains("RemoteConnections: tcp:192.0.2.1:443\nEnd\n"), "{text}");
        assert!(text.ends_with("End\nsuccess: Created\n"), "{text}");
        let totals = CopyTotals { pulled: 1, bytes_pulled: 77, ..CopyTotals::default() };
        assert_eq!(counters.totals(), totals);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_one_line() {
        let what = format!("bad\r\nsuccess: {}", "ü".repeat(1000));
        let work = async move { Err(Error::new(ErrorKind::Local, what)) };
        let (report, counters) = report(work, std::future::ready(()));
        let text = read(report).await;
        let last = text.lines().next_back().unwrap();
        assert!(last.starts_with("failure: bad\\r\\nsuccess: ü") && last.len() < 1000, "{last}");
        assert!(!text.lines().any(|line| line.starts_with("success")), "{text}");
        assert_eq!(counters.totals(), CopyTotals { failed: 1, ..CopyTotals::default() });
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_ends_when_its_client_disconnects() {
        let (cleaned, done) = tokio::sync::oneshot::channel();
        let clean_up = async move { cleaned.send(()).unwrap() };
        let (mut report, counters) = report(std::future::pending(), clean_up);
        report.chunks.next().await.unwrap().unwrap();
        drop(report);
        done.await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(counters.totals(), CopyTotals { cancelled: 1, ..CopyTotals::default() });
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_delays_no_copy() {
        let work = async {
            tokio::time::sleep(MINUTE * 100).await;
            Ok(7)
        };
        let (report, _) = report(work, std::future::ready(()));
        tokio::time::sleep(MINUTE * 200).await;
        let text = read(report).await;
        assert_eq!(counted(&text).len(), MAX_WAITING + 1);
        assert!(text.ends_with("success: Created\n"), "{text}");
    }
}

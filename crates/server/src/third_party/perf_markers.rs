//! What a client is told while its copy goes on: a text in the form that gfal2, davix and FTS read.
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
//! A marker every few seconds, and one line at the end, `success: …` or `failure: …`; a text without it is a copy that
//! failed. What a marker counts is on disk here, or has reached the other machine ([`CopyProgress`]).
//!
//! A client that does not read keeps nothing waiting: markers for which there is no room are left out. One that goes away is
//! noticed when its answer is dropped.

use crate::connection::sendfile::BodyChunk;
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

/// The type that dCache has given such a text.
pub(crate) const TYPE: &str = "text/perf-marker-stream";
/// Markers that wait for a client that does not read.
const MAX_WAITING: usize = 8;
/// Longest line: davix reads 1,024 bytes.
const MAX_LINE: usize = 900;

/// How far a copy is.
pub(crate) trait CopyProgress: Send + Sync {
    /// Bytes that are where they belong; this may wait for the disk.
    fn count(&self) -> BoxFuture<'static, u64>;
    /// The other end.
    fn address(&self) -> Option<SocketAddr>;
}

/// The chunks of a report as it is written.
struct PerfMarkerStream(mpsc::Receiver<Bytes>);

impl Stream for PerfMarkerStream {
    type Item = io::Result<BodyChunk>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(BodyChunk::Memory(bytes))))
    }
}

/// A copy that is to be told of.
pub(crate) struct MarkedCopy<W, C> {
    /// Moves the file; the bytes that were moved.
    pub(crate) work: W,
    /// What is done when it failed or was given up.
    pub(crate) clean_up: C,
    pub(crate) count: Arc<dyn CopyProgress>,
    /// Between two markers.
    pub(crate) every: Duration,
    pub(crate) taking: CopySlot,
}

/// Does the work beside the answer that tells of it.
pub(crate) fn tell<W, C>(work: MarkedCopy<W, C>) -> ChunkStream
where
    W: Future<Output = Result<u64>> + Send + 'static,
    C: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    tokio::spawn(async move {
        let MarkedCopy { work, clean_up, count, every, taking } = work;
        let outcome = followed(Box::pin(work), &*count, every, &sender).await;
        // Whatever the work held is dropped by now.
        match outcome {
            Some(outcome) => {
                if outcome.is_err() {
                    clean_up.await;
                }
                taking.finish(&outcome);
                let mut text = String::new();
                if let Ok(bytes) = outcome {
                    text = marker(bytes, count.address());
                }
                text.push_str(&closing(&outcome));
                // It has all the time in the world to read that.
                drop(sender.send(Bytes::from(text)).await);
            }
            None => {
                clean_up.await;
                drop(taking);
            }
        }
    });
    ChunkStream::new(Box::pin(PerfMarkerStream(receiver)), None)
}

/// The outcome of a copy that failed before it began.
pub(crate) fn told(error: Error) -> Bytes {
    Bytes::from(closing(&Err(error)))
}

/// Follows the work to its end; none if nobody wants to know any more.
async fn followed(
    work: impl Future<Output = Result<u64>> + Send,
    count: &dyn CopyProgress,
    every: Duration,
    sender: &mpsc::Sender<Bytes>,
) -> Option<Result<u64>> {
    let mut work = pin!(work);
    let mut tick = tokio::time::interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut counting, mut counted): (Option<BoxFuture<'static, u64>>, u64) = (None, 0);
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
                (counting, counted) = (None, bytes);
                // For want of room it is left out.
                let _ = sender.try_send(Bytes::from(marker(counted, count.address())));
            }
            _ = tick.tick() => match &counting {
                None => counting = Some(count.count()),
                // The disk takes its time; that it goes on is worth a word.
                Some(_) => {
                    let _ = sender.try_send(Bytes::from(marker(counted, count.address())));
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
        // Writing to a string succeeds.
        let _ = writeln!(text, "    RemoteConnections: tcp:{address}");
    }
    text.push_str("End\n");
    text
}

fn closing(outcome: &Result<u64>) -> String {
    match outcome {
        Ok(_) => "success: Created\n".to_owned(),
        Err(error) => format!("failure: {}\n", one_line(&error.to_string())),
    }
}

/// A text of any origin as a part of one line.
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
    use crate::third_party::settings::ThirdPartySettings;
    use bytes::Buf;
    use futures_util::StreamExt;
    use hither_core::error::ErrorKind;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::runtime::Handle;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A file that grows by one byte between two looks.
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

    /// A report of `work`, and what is counted of it.
    fn report(
        work: impl Future<Output = Result<u64>> + Send + 'static,
        clean_up: impl Future<Output = ()> + Send + 'static,
    ) -> (ChunkStream, Arc<CopyCounters>) {
        let third =
            ThirdPartyCopier::open(ThirdPartySettings::default(), Handle::current()).unwrap();
        let counts = Arc::default();
        let taking = third.take_slot(CopyDirection::Pull, &counts).unwrap();
        let count = Arc::new(Growing::default());
        let telling = tell(MarkedCopy { work, clean_up, count, every: MINUTE, taking });
        (telling, counts)
    }

    async fn read(mut telling: ChunkStream) -> String {
        let mut text = Vec::new();
        while let Some(chunk) = telling.chunks.next().await {
            text.extend_from_slice(chunk.unwrap().chunk());
        }
        String::from_utf8(text).unwrap()
    }

    fn counted(text: &str) -> Vec<u64> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("Stripe Bytes Tr"));
        lines.map(|line| line.split(' ').next_back().unwrap().parse().unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn markers_come_at_times_and_the_outcome_at_the_end() {
        let work = async {
            tokio::time::sleep(MINUTE * 5 / 2).await;
            Ok(77)
        };
        let (telling, counts) = report(work, std::future::ready(()));
        let text = read(telling).await;
        assert_eq!(counted(&text), [0, 1, 2, 77]);
        assert!(text.starts_with("Perf Marker\n    Timestamp: "), "{text}");
        assert!(text.contains("RemoteConnections: tcp:192.0.2.1:443\nEnd\n"), "{text}");
        assert!(text.ends_with("End\nsuccess: Created\n"), "{text}");
        let over = CopyTotals { pulled: 1, bytes_pulled: 77, ..CopyTotals::default() };
        assert_eq!(counts.totals(), over);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_one_line_whatever_is_in_it() {
        let what = format!("bad\r\nsuccess: {}", "ü".repeat(1000));
        let work = async move { Err(Error::new(ErrorKind::Local, what)) };
        let (telling, counts) = report(work, std::future::ready(()));
        let text = read(telling).await;
        let last = text.lines().next_back().unwrap();
        assert!(last.starts_with("failure: bad  success: ü") && last.len() < 1000, "{last}");
        assert!(!text.lines().any(|line| line.starts_with("success")), "{text}");
        assert_eq!(counts.totals(), CopyTotals { failed: 1, ..CopyTotals::default() });
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_works_for_a_client_that_has_gone() {
        let (cleaned, done) = tokio::sync::oneshot::channel();
        let clean_up = async move { cleaned.send(()).unwrap() };
        let (mut telling, counts) = report(std::future::pending(), clean_up);
        telling.chunks.next().await.unwrap().unwrap();
        drop(telling);
        done.await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(counts.totals(), CopyTotals { cancelled: 1, ..CopyTotals::default() });
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_holds_nothing_up() {
        let work = async {
            tokio::time::sleep(MINUTE * 100).await;
            Ok(7)
        };
        let (telling, _) = report(work, std::future::ready(()));
        tokio::time::sleep(MINUTE * 200).await;
        let text = read(telling).await;
        assert_eq!(counted(&text).len(), MAX_WAITING + 1);
        assert!(text.ends_with("success: Created\n"), "{text}");
    }
}

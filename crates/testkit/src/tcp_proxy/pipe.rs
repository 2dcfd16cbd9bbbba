//! One direction of one connection.

use super::Shared;
use super::bit_flips::Flips;
use hither_core::sync::lock;
use hither_netem::link::Link;
use std::io;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Maximum number of bytes in one read.
const MAX_CHUNK: u64 = 16 * 1024;

/// Minimum number of bytes in one read at a low rate: a segment.
const MIN_CHUNK: u64 = 1448;

/// Maximum number of chunks in flight per direction of a connection, which bounds memory to 16 MiB.
const MAX_CHUNKS: usize = 1024;

/// One direction of the link, shared by all connections.
#[derive(Debug)]
pub(super) struct ProxyLink {
    link: Link,
    chunk: usize,
    /// The time at which all bits sent so far have left the sender.
    free_at: Mutex<Option<Instant>>,
}

impl ProxyLink {
    pub(super) fn new(link: Link) -> Self {
        let chunk = link.bandwidth.map_or(MAX_CHUNK, |rate| rate / 8 / 1000);
        let chunk = chunk.clamp(MIN_CHUNK, MAX_CHUNK);
        Self {
            link,
            chunk: usize::try_from(chunk).unwrap_or(usize::MAX),
            free_at: Mutex::default(),
        }
    }

    /// Sends bytes at `now`; returns the time at which they arrive at the other end.
    fn put(&self, now: Instant, bytes: usize) -> Instant {
        let taken = self.link.serialisation(u64::try_from(bytes).unwrap_or(u64::MAX));
        let mut free_at = lock(&self.free_at);
        let out = free_at.map_or(now, |free_at| free_at.max(now)) + taken;
        *free_at = Some(out);
        out + self.link.one_way()
    }

    /// The time at which the queue has space again.
    fn room_at(&self) -> Option<Instant> {
        let queue = self.link.serialisation(self.link.queue_bytes());
        let free_at = *lock(&self.free_at);
        free_at.and_then(|free_at| free_at.checked_sub(queue))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

/// Bytes with their time of arrival; empty at the end of the stream.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

/// One direction of one connection.
pub(super) struct Flow {
    pub(super) direction: Direction,
    /// The earliest time at which bytes enter the link.
    pub(super) not_before: Instant,
    pub(super) flips: Flips,
}

impl Flow {
    /// Forwards bytes from one side to the other until the sender closes; returns an error if the
    /// connection was broken off.
    pub(super) async fn carry(
        self,
        from: OwnedReadHalf,
        to: OwnedWriteHalf,
        shared: &Shared,
    ) -> io::Result<()> {
        let (sender, receiver) = mpsc::channel(MAX_CHUNKS);
        let direction = self.direction;
        tokio::try_join!(
            self.take_in(from, sender, shared),
            hand_out(receiver, to, direction, shared)
        )?;
        Ok(())
    }

    async fn take_in(
        mut self,
        mut from: OwnedReadHalf,
        sender: mpsc::Sender<Chunk>,
        shared: &Shared,
    ) -> io::Result<()> {
        let line = match self.direction {
            Direction::ToServer => &shared.up,
            Direction::ToClient => &shared.down,
        };
        let mut buffer = vec![0; line.chunk];
        loop {
            if let Some(room_at) = line.room_at() {
                shared.alarm.until(room_at).await;
            }
            let length = from.read(&mut buffer).await?;
            if length > 0 && self.direction == Direction::ToServer {
                let mut seen = shared.seen();
                seen.turns.sends();
                seen.counts.to_server_bytes += u64::try_from(length).unwrap_or_default();
            }
            let now = Instant::now().max(self.not_before);
            let mut bytes = buffer.get(..length).unwrap_or_default().to_vec();
            let flipped = self.flips.strike(&mut bytes);
            if flipped > 0 {
                let counts = &mut shared.seen().counts;
                match self.direction {
                    Direction::ToServer => counts.to_server_flips += flipped,
                    Direction::ToClient => counts.to_client_flips += flipped,
                }
            }
            let chunk = Chunk { due: line.put(now, length), bytes };
            let ended = length == 0;
            // The other half is dropped only if the connection is broken off.
            if sender.send(chunk).await.is_err() || ended {
                return Ok(());
            }
        }
    }
}

async fn hand_out(
    mut receiver: mpsc::Receiver<Chunk>,
    mut to: OwnedWriteHalf,
    direction: Direction,
    shared: &Shared,
) -> io::Result<()> {
    while let Some(chunk) = receiver.recv().await {
        shared.alarm.until(chunk.due).await;
        if chunk.bytes.is_empty() {
            return to.shutdown().await;
        }
        if direction == Direction::ToClient {
            // Counted before writing: the client may send as soon as it has received them.
            let mut seen = shared.seen();
            seen.turns.receives();
            seen.counts.to_client_bytes += u64::try_from(chunk.bytes.len()).unwrap_or_default();
        }
        to.write_all(&chunk.bytes).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn line_is_shared_and_delays() {
        let line = ProxyLink::new(Link::E);
        let now = Instant::now();
        let first = line.put(now, 12_500);
        let second = line.put(now, 12_500);
        assert_eq!(first - now, Duration::from_millis(11 + 1));
        assert_eq!(second - now, Duration::from_millis(11 + 2));
        assert!(line.room_at().is_none_or(|room_at| room_at < now));
        line.put(now, 1_000_000);
        assert!(line.room_at().is_some_and(|room_at| room_at > now));
    }

    #[test]
    fn line_without_rate_only_delays() {
        let line = ProxyLink::new(Link::G);
        let now = Instant::now();
        line.put(now, 1_000_000);
        assert_eq!(line.put(now, 1) - now, Duration::from_millis(120));
    }
}

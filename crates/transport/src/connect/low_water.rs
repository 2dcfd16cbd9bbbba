//! The number of bytes that must have arrived before the kernel wakes the reader of a connection.
//!
//! Over a long path a body arrives a few packets at a time. Woken by each of them, a copy at 1
//! Gbit/s switches between its threads 40,000 times a second, which takes as much processor time as
//! the bytes. With `SO_RCVLOWAT` (socket(7)) the kernel waits for more: here for the bytes that
//! arrive in [`MAX_DELAY`] at the rate of the connection, so slow connections and short bodies are
//! read as before.
//!
//! If the mark exceeded the rest of a body, the reader would never be woken for its end. So the
//! mark is at most the number of bytes that are certainly missing, and it is not set where the
//! length is unknown. The kernel wakes the reader earlier when the connection ends or its receive
//! buffer is full.

use rustix::fd::{AsFd, AsRawFd};
use std::time::Duration;
use tokio::time::Instant;

/// The delay that a reader may have.
const MAX_DELAY: Duration = Duration::from_millis(16);
/// The rate is measured over this time at least.
const RATE_TIME: Duration = Duration::from_millis(20);
/// The smallest mark that is set, in bytes.
const MIN_BYTES: u64 = 16 << 10;
const MAX_BYTES: u64 = 256 << 10;

/// The low-water mark of a socket, and the rate that it follows.
#[derive(Debug)]
pub(crate) struct LowWater {
    /// The option of the socket.
    set: u64,
    /// Bytes that arrive in [`MAX_DELAY`].
    delay_bytes: u64,
    /// Bytes since `since`.
    bytes: u64,
    since: Instant,
}

impl LowWater {
    pub(crate) fn new() -> Self {
        Self { set: 1, delay_bytes: 0, bytes: 0, since: Instant::now() }
    }

    /// Counts bytes that were read.
    pub(crate) fn read(&mut self, bytes: u64) {
        self.bytes += bytes;
        let elapsed = self.since.elapsed();
        if elapsed >= RATE_TIME {
            let bytes = u128::from(self.bytes) * MAX_DELAY.as_micros() / elapsed.as_micros();
            self.delay_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            self.bytes = 0;
            self.since = Instant::now();
        }
    }

    /// Sets the option of `socket`, of whose body at least `left` bytes have yet to arrive.
    pub(crate) fn set(&mut self, socket: &impl AsFd, left: u64) {
        let wanted = mark(self.delay_bytes, left);
        if wanted != self.set {
            self.set = wanted;
            set_option(socket, i32::try_from(wanted).unwrap_or(1));
        }
    }
}

/// A power of two, so that it seldom changes.
fn mark(delay_bytes: u64, left: u64) -> u64 {
    let bytes = delay_bytes.min(left).min(MAX_BYTES);
    if bytes < MIN_BYTES { 1 } else { 1 << bytes.ilog2() }
}

fn set_option(socket: &impl AsFd, bytes: libc::c_int) {
    let length = libc::socklen_t::try_from(size_of_val(&bytes)).unwrap_or_default();
    // SAFETY: the kernel reads `length` bytes of `bytes`, which has that many and outlives the
    // call; the descriptor is open as long as it is borrowed.
    #[expect(unsafe_code, reason = "no crate in use has this option of sockets")]
    let failed = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            length,
        )
    };
    // Where the option does not exist, the reader is woken more often.
    debug_assert_eq!(failed, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_reader_is_woken_when_enough_has_arrived_or_less_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut low_water = LowWater { delay_bytes: 1 << 20, ..LowWater::new() };
        low_water.set(&stream, 1 << 20);
        peer.write_all(&[0; 1_000]).await.unwrap();
        assert!(timeout(Duration::from_millis(50), stream.readable()).await.is_err());
        low_water.set(&stream, 1_000);
        timeout(Duration::from_secs(20), stream.readable()).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_mark_follows_the_rate() {
        let mut low_water = LowWater::new();
        tokio::time::advance(Duration::from_secs(1)).await;
        low_water.read(10_000_000);
        assert!((100_000..=160_000).contains(&low_water.delay_bytes), "{low_water:?}");
    }

    #[test]
    fn no_more_is_waited_for_than_what_is_missing() {
        assert_eq!(mark(1 << 20, u64::MAX), MAX_BYTES);
        assert_eq!(mark(100_000, u64::MAX), 65_536);
        assert_eq!(mark(1 << 20, 100_000), 65_536);
        assert_eq!(mark(1 << 20, MIN_BYTES), MIN_BYTES);
        assert_eq!(mark(1 << 20, MIN_BYTES - 1), 1);
        assert_eq!(mark(1 << 20, 0), 1);
        assert_eq!(mark(MIN_BYTES - 1, u64::MAX), 1);
    }
}

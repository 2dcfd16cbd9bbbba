//! A connection that breaks at given bytes.

use super::fault::{BreakPoint, Fault};
use super::{Shared, State};
use bytes::{Bytes, BytesMut};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// See the [module](self).
pub(super) struct FaultyStream {
    stream: TcpStream,
    number: usize,
    shared: Arc<Shared>,
    faults: Vec<Fault>,
    /// Bytes that may still be read from the client, and sent to it.
    left: (usize, usize),
    buffer: BytesMut,
}

impl FaultyStream {
    pub(super) fn new(
        stream: TcpStream,
        number: usize,
        shared: Arc<Shared>,
        faults: Vec<Fault>,
    ) -> Self {
        let least = |of: fn(BreakPoint) -> Option<usize>| {
            let points = faults.iter().filter_map(|fault| match fault {
                Fault::Close(point) | Fault::Reset(point) | Fault::Stall(point) => of(*point),
                _ => None,
            });
            points.min().unwrap_or(usize::MAX)
        };
        let left = (
            least(|point| if let BreakPoint::ToServer(at) = point { Some(at) } else { None }),
            least(|point| if let BreakPoint::ToClient(at) = point { Some(at) } else { None }),
        );
        Self { stream, number, shared, faults, left, buffer: BytesMut::new() }
    }

    fn count(&self, count: impl FnOnce(&mut (usize, usize))) {
        let State { crossed, .. } = &mut *self.shared.state();
        if let Some(crossed) = crossed.get_mut(self.number) {
            count(crossed);
        }
    }

    /// The client's next bytes; none at its end, or if the connection has to break here.
    pub(super) async fn read(&mut self) -> io::Result<Bytes> {
        if self.left.0 == 0 {
            return Ok(Bytes::new());
        }
        self.buffer.reserve(64 * 1024);
        let read = self.stream.read_buf(&mut self.buffer).await?;
        let taken = read.min(self.left.0);
        self.left.0 -= taken;
        self.count(|crossed| crossed.0 += taken);
        let mut bytes = self.buffer.split();
        bytes.truncate(taken);
        Ok(bytes.freeze())
    }

    /// Sends bytes; returns false if the connection has to break here.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let sent = bytes.get(..self.left.1).unwrap_or(bytes);
        self.left.1 -= sent.len();
        // Counted before sending, because the receiver may read the counters immediately.
        self.count(|crossed| crossed.1 += sent.len());
        self.stream.write_all(sent).await?;
        Ok(self.left.1 > 0)
    }

    /// Returns true if the connection has to break after the response to this request.
    pub(super) fn ends_behind(&self, nth: usize) -> bool {
        let ends = |point: BreakPoint| matches!(point, BreakPoint::Answered(last) if last <= nth);
        self.faults.iter().any(|fault| match fault {
            Fault::Close(point) | Fault::Reset(point) | Fault::Stall(point) => ends(*point),
            _ => false,
        })
    }

    /// The banner to send instead of the protocol.
    pub(super) fn banner(&self) -> Option<&'static [u8]> {
        self.faults.iter().find_map(|fault| match fault {
            Fault::Banner(banner) => Some(*banner),
            _ => None,
        })
    }

    /// Breaks the connection according to its fault.
    pub(super) async fn strike(mut self) -> io::Result<()> {
        let reset = self.faults.iter().any(|fault| matches!(fault, Fault::Reset(_)));
        let stalls =
            self.faults.iter().any(|fault| matches!(fault, Fault::Stall(_) | Fault::Banner(_)));
        if stalls {
            // Until the other end closes.
            let mut sink = [0; 4096];
            while self.stream.read(&mut sink).await? > 0 {}
        } else if reset {
            self.reset()?;
        } else {
            self.stream.shutdown().await?;
        }
        Ok(())
    }

    /// Resets the connection, as a server does after a protocol violation.
    pub(super) fn reset(self) -> io::Result<()> {
        self.stream.set_zero_linger()
    }
}

//! Requests through `io_uring`: one thread, many requests in flight.
//!
//! The kernel accesses the blocks until it reports that a request is done, so no block is freed
//! before; if the ring itself fails, the blocks are leaked.

use super::case::Direction;
use super::workload::{Block, Done, Turns, Workload};
use io_uring::{IoUring, opcode, types};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;

/// Tests if the kernel allows this process to create a ring.
pub(super) fn try_ring() -> Result<()> {
    ring(2).map(drop)
}

/// A ring whose completions wait until this thread requests them (Linux 6.1), so that they do not
/// interrupt the thread. Older kernels get a plain ring.
fn ring(entries: u32) -> Result<IoUring> {
    let deferred = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
    deferred.or_else(|_| IoUring::new(entries))
}

/// Reads or writes with a request in flight for each of `blocks`.
pub(super) fn run(work: &Workload<'_>, turns: &Turns<'_>, mut blocks: Vec<Block>) -> Result<Done> {
    let depth = blocks.len();
    let mut ring = ring(u32::try_from(depth).map_err(Error::other)?)?;
    let mut free: Vec<usize> = (0..depth).collect();
    let mut done = Done::default();
    let mut failure = None;
    loop {
        while failure.is_none()
            && let Some(slot) = free.pop()
        {
            let Some((block, offset)) = blocks.get_mut(slot).zip(work.next_offset(turns)) else {
                free.push(slot);
                break;
            };
            if let Err(error) = submit(&mut ring, work, block, offset, slot) {
                free.push(slot);
                failure = Some(error);
            }
        }
        if free.len() == depth {
            return failure.map_or(Ok(done), Err);
        }
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                std::mem::forget(blocks);
                return Err(error);
            }
            _ => {}
        }
        for completed in ring.completion() {
            free.extend(usize::try_from(completed.user_data()));
            match u64::try_from(completed.result()) {
                Ok(bytes) => {
                    done.bytes += bytes;
                    done.operations += 1;
                }
                Err(_) => failure = Some(Error::from_raw_os_error(-completed.result())),
            }
        }
    }
}

fn submit(
    ring: &mut IoUring,
    work: &Workload<'_>,
    block: &mut Block,
    offset: u64,
    slot: usize,
) -> Result<()> {
    let file = types::Fd(work.file.as_raw_fd());
    let bytes = block.bytes();
    let length = u32::try_from(bytes.len()).map_err(Error::other)?;
    let request = match work.case.direction {
        Direction::Read => {
            opcode::Read::new(file, bytes.as_mut_ptr(), length).offset(offset).build()
        }
        Direction::Write => opcode::Write::new(file, bytes.as_ptr(), length).offset(offset).build(),
    };
    // SAFETY: the block and the file live until the request is done (see above), and a block has
    // only one request at a time.
    #[expect(unsafe_code, reason = "the kernel keeps the address of the block")]
    unsafe {
        ring.submission().push(&request.user_data(slot as u64)).map_err(Error::other)
    }
}

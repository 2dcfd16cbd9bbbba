//! Asynchronous reads: a queue of completions with an event descriptor.
//!
//! A submitted read runs on the client's threads and ends there with its bytes in memory of the
//! library. [`hither_queue_poll`] copies them into the program's buffers, on the program's thread.
//! So no thread of the library ever writes to memory of the program, which may free its buffers as
//! soon as it has freed the queue, even with reads in flight.
//!
//! One lock protects the table of reads, the completed ones and the event descriptor, which is
//! readable exactly while there are completed reads. The bytes in memory are bounded by the reads
//! that the program submits.

use crate::border::{free, guarded, guarded_future, own};
use crate::client::{Client, with_client};
use crate::error::ErrorObject;
use crate::file::{File, OpenedFile, checked, fill, opened, ranges};
use crate::foreign::{Piece, UserData, elements, handle};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use hither::{Error, ErrorKind, PerProcess};
use hither_core::sync::lock;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Reads that are in flight, and those that have completed. It keeps its client.
#[derive(Debug)]
pub struct Queue(PerProcess<QueueHandle>);

/// A read that has completed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// The pointer that the program submitted with the read.
    pub user_data: *mut c_void,
    /// Number of bytes, -1 after an error.
    pub result: i64,
    /// The error, which the program frees; NULL without one.
    pub error: *mut ErrorObject,
}

#[derive(Debug)]
struct QueueHandle {
    reads: Arc<Reads>,
    client: Arc<hither::Client>,
}

/// The reads of a queue, shared with the tasks that run them.
#[derive(Debug)]
struct Reads {
    table: Mutex<Table>,
    completed: Condvar,
    /// Invariant: readable while `Table::done` is not empty. Changed under the lock of `table`.
    event: OwnedFd,
}

#[derive(Debug, Default)]
struct Table {
    submitted: u64,
    in_flight: HashMap<u64, Submission>,
    done: VecDeque<(Submission, Outcome)>,
}

#[derive(Debug)]
struct Submission {
    pieces: Vec<Piece>,
    user_data: UserData,
    abort: AbortHandle,
}

/// The bytes of each piece.
type Outcome = Result<Vec<Bytes>, ErrorObject>;

impl Reads {
    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    fn complete(&self, read: u64, outcome: Outcome) {
        let mut table = self.lock();
        if let Some(submission) = table.in_flight.remove(&read) {
            table.done.push_back((submission, outcome));
            self.signal(&table);
            // All of them: the completion of the last read in flight ends the wait of every thread.
            self.completed.notify_all();
        }
    }

    /// Makes the event descriptor readable exactly if there are completed reads. The calls cannot
    /// block, and fail only if the descriptor is in the requested state already.
    fn signal(&self, table: &Table) {
        let _ = if table.done.is_empty() {
            rustix::io::read(&self.event, &mut [0; 8])
        } else {
            rustix::io::write(&self.event, &1_u64.to_ne_bytes())
        };
    }

    /// Waits until a read has completed, none is in flight, or the timeout is over; `None` waits
    /// without limit.
    fn wait(&self, timeout: Option<Duration>) -> MutexGuard<'_, Table> {
        let table = self.lock();
        let waits = |table: &mut Table| table.done.is_empty() && !table.in_flight.is_empty();
        match timeout {
            None => self.completed.wait_while(table, waits).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = self.completed.wait_timeout_while(table, timeout, waits);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }
}

impl QueueHandle {
    fn submit(
        &self,
        pieces: Vec<Piece>,
        user_data: *mut c_void,
        read: BoxFuture<'static, Result<Vec<Bytes>, Error>>,
    ) {
        let mut table = self.reads.lock();
        table.submitted += 1;
        let number = table.submitted;
        let reads = Arc::clone(&self.reads);
        // The task completes only after this lock is released, so it finds its submission.
        let task = self.client.runtime().spawn(async move {
            let outcome = guarded_future(read).await;
            reads.complete(number, outcome);
        });
        let user_data = UserData(user_data);
        let submission = Submission { pieces, user_data, abort: task.abort_handle() };
        table.in_flight.insert(number, submission);
    }
}

impl Drop for QueueHandle {
    fn drop(&mut self) {
        for (_, submission) in self.reads.lock().in_flight.drain() {
            submission.abort.abort();
        }
        self.reads.completed.notify_all();
    }
}

impl Completion {
    fn new(submission: &Submission, outcome: Outcome) -> Self {
        let filled = outcome.and_then(|found| {
            fill(&submission.pieces, &found).map_err(|error| ErrorObject::new(&error))
        });
        let (result, error) = match filled {
            Ok(bytes) => (bytes, None),
            Err(error) => (-1, Some(error)),
        };
        let error = ErrorObject::hand_over(error);
        Self { user_data: submission.user_data.0, result, error }
    }
}

fn submitted(
    queue: Option<&Queue>,
    error: Option<&mut *mut ErrorObject>,
    body: impl FnOnce(&QueueHandle) -> Result<(), Error>,
) -> c_int {
    guarded(error, -1, || body(own(&handle("the queue", queue)?.0)?).map(|()| 0))
}

/// Creates a queue of reads of the files of a client. Returns NULL after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_queue_new(
    client: Option<&Client>,
    error: Option<&mut *mut ErrorObject>,
) -> Option<Box<Queue>> {
    with_client(client, error, None, |client| {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let event = event.map_err(|error| {
            Error::new(ErrorKind::Local, "cannot make an event descriptor").with_source(error)
        })?;
        let (table, completed) = Default::default();
        let reads = Arc::new(Reads { table, completed, event });
        let queue = QueueHandle { reads, client: Arc::clone(client) };
        Ok(Some(Box::new(Queue(PerProcess::new(queue)))))
    })
}

/// Returns a descriptor for poll, epoll or select that is readable while there are completions. It
/// belongs to the queue: do not read or close it. Returns -1 for NULL and after fork.
#[unsafe(no_mangle)]
pub extern "C" fn hither_queue_descriptor(queue: Option<&Queue>) -> c_int {
    guarded(None, -1, || Ok(own(&handle("the queue", queue)?.0)?.reads.event.as_raw_fd()))
}

/// Submits a read of `length` bytes at `offset`, which does not wait. The file may be closed at
/// once. The buffer is filled by hither_queue_poll and has to exist until then. Returns 0, -1 after
/// an error, which leaves no completion.
#[unsafe(no_mangle)]
pub extern "C" fn hither_submit_pread(
    queue: Option<&Queue>,
    file: Option<&File>,
    target: *mut c_void,
    length: usize,
    offset: u64,
    user_data: *mut c_void,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    submitted(queue, error, |queue| {
        let OpenedFile { file, .. } = opened(file)?.clone();
        let piece = Piece { offset, length, buffer: target };
        piece.check()?;
        let read = async move { Ok(vec![file.read_async(offset, length as u64).await?]) };
        queue.submit(vec![piece], user_data, read.boxed());
        Ok(())
    })
}

/// Submits a read of many pieces at once, as hither_preadv does. The list of pieces is copied;
/// their buffers are filled by hither_queue_poll and have to exist until then. Returns 0, -1 after
/// an error, which leaves no completion.
#[unsafe(no_mangle)]
pub extern "C" fn hither_submit_preadv(
    queue: Option<&Queue>,
    file: Option<&File>,
    pieces: *const Piece,
    count: usize,
    user_data: *mut c_void,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    submitted(queue, error, |queue| {
        let OpenedFile { file, .. } = opened(file)?.clone();
        let pieces = checked(pieces, count)?.to_vec();
        let ranges = ranges(&pieces)?;
        let read = async move { file.read_ranges_async(&ranges).await };
        queue.submit(pieces, user_data, read.boxed());
        Ok(())
    })
}

/// Takes up to `max` completions, after it has copied their bytes into the program's buffers. Waits
/// until there is one, nothing is in flight, or `timeout_ms` milliseconds are over; 0 does not
/// wait, -1 waits without limit. Returns their number, -1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_queue_poll(
    queue: Option<&Queue>,
    completions: *mut Completion,
    max: usize,
    timeout_ms: c_int,
    error: Option<&mut *mut ErrorObject>,
) -> i64 {
    guarded(error, -1, || {
        let QueueHandle { reads, .. } = own(&handle("the queue", queue)?.0)?;
        let places = elements("the list of completions", completions, max)?;
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let mut table = reads.wait(timeout);
        let taken = max.min(table.done.len());
        let done: Vec<_> = table.done.drain(..taken).collect();
        reads.signal(&table);
        drop(table);
        for (place, (submission, outcome)) in places.iter_mut().zip(done) {
            *place = Completion::new(&submission, outcome);
        }
        // It is a length in memory, so it fits.
        Ok(i64::try_from(taken).unwrap_or(i64::MAX))
    })
}

/// Frees a queue. Reads in flight are cancelled, and no buffer is written any more. NULL does
/// nothing.
#[unsafe(no_mangle)]
pub extern "C" fn hither_queue_free(queue: Option<Box<Queue>>) {
    free(queue);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_testkit::waiting::wait_until;
    use std::sync::mpsc;

    #[test]
    fn the_last_read_in_flight_wakes_every_thread_that_polls() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let (table, completed) = Default::default();
        let reads = Arc::new(Reads { table, completed, event });
        let abort = runtime.spawn(async {}).abort_handle();
        let user_data = UserData(std::ptr::null_mut());
        let submission = Submission { pieces: Vec::new(), user_data, abort };
        reads.lock().in_flight.insert(1, submission);
        let (ended, done) = mpsc::channel();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (reads, ended) = (Arc::clone(&reads), ended.clone());
                let (tell, thread) = mpsc::channel();
                std::thread::spawn(move || {
                    let me = std::fs::read_link("/proc/thread-self").unwrap();
                    tell.send(std::path::Path::new("/proc").join(me)).unwrap();
                    let taken = reads.wait(None).done.pop_front();
                    ended.send(taken.is_some()).unwrap();
                });
                thread.recv().unwrap()
            })
            .collect();
        for thread in threads {
            let state = || std::fs::read_to_string(thread.join("stat")).unwrap();
            assert!(wait_until(|| state().contains(") S ")), "the thread does not wait");
        }
        reads.complete(1, Ok(Vec::new()));
        let next = || done.recv_timeout(Duration::from_secs(60)).expect("a thread waits for ever");
        let taken = (0..4).filter(|_| next()).count();
        assert_eq!(taken, 1);
    }
}

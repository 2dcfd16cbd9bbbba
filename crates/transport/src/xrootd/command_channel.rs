//! The channel of commands to a session, which loses none: each is received, or dropped together
//! with its reply channel.
//!
//! The channel of tokio does not promise that. A value that is sent while the receiver is closed
//! can arrive after the receiver was emptied, and then stays until the last sender is dropped. But
//! who waits for a reply has a sender, so it would wait forever. Here nothing is sent while the
//! receiver is being closed.

use crate::xrootd::job::SessionCommand;
use hither_core::sync::lock;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The end of those that have commands.
#[derive(Debug, Clone)]
pub(super) struct CommandSender {
    sender: UnboundedSender<SessionCommand>,
    closing: Arc<Mutex<()>>,
}

/// The end of the session. Once it is closed, the commands in it are all that will ever come.
#[derive(Debug)]
pub(super) struct CommandInbox {
    receiver: UnboundedReceiver<SessionCommand>,
    closing: Arc<Mutex<()>>,
}

/// Both ends.
pub(super) fn command_channel() -> (CommandSender, CommandInbox) {
    let (sender, receiver) = unbounded_channel();
    let closing = Arc::new(Mutex::new(()));
    (CommandSender { sender, closing: Arc::clone(&closing) }, CommandInbox { receiver, closing })
}

impl CommandSender {
    /// Sends a command. A session that has ended drops it, together with its reply channel.
    pub(super) fn send(&self, command: SessionCommand) {
        let is_open = lock(&self.closing);
        let unsent = self.sender.send(command);
        drop(is_open);
        // Dropping it may close its file, which sends a command.
        drop(unsent);
    }

    /// Returns whether the session takes no more commands.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Returns whether both send to the same session.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.sender.same_channel(&other.sender)
    }
}

impl CommandInbox {
    /// Takes no more commands.
    pub(super) fn close(&mut self) {
        let _nothing_is_sent = lock(&self.closing);
        self.receiver.close();
    }

    /// The next command, if there is one.
    ///
    /// # Errors
    ///
    /// As [`UnboundedReceiver::try_recv`].
    pub(super) fn try_recv(&mut self) -> Result<SessionCommand, TryRecvError> {
        self.receiver.try_recv()
    }

    /// Polls for the next command. Returns none if there are no senders any more.
    pub(super) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<SessionCommand>> {
        self.receiver.poll_recv(cx)
    }
}

impl Drop for CommandInbox {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xrootd::job::{Operation, OperationJob};
    use hither_xrd::wire::Request;
    use std::hint::spin_loop;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use tokio::sync::oneshot;
    use tokio::sync::oneshot::error::TryRecvError as NoReply;

    const ROUNDS: usize = 50_000;
    /// Waits in which a thread gives its core away, after which no further round begins. Where two
    /// threads rarely get a core each, such a wait takes milliseconds, and all rounds would take
    /// minutes.
    const MAX_YIELDS: usize = 10_000;

    /// Waits until it is the turn of this thread.
    fn wait_for(turn: &AtomicUsize, mine: usize, yields: &AtomicUsize) {
        for spins in 1_u32.. {
            match turn.load(Ordering::Acquire) < mine {
                false => break,
                true if spins % 4096 == 0 => {
                    yields.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                }
                true => spin_loop(),
            }
        }
    }

    /// A command is sent while another thread ends the session, a little earlier or later in each
    /// round.
    #[test]
    fn a_command_to_a_session_that_ends_gets_an_answer_or_its_reply_is_dropped() {
        let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let yields = AtomicUsize::new(0);
        let ending = Mutex::new(None::<CommandInbox>);
        let mut unanswered = 0;
        thread::scope(|both| {
            both.spawn(|| {
                for round in 1..=ROUNDS {
                    wait_for(&begun, round, &yields);
                    let Some(mut inbox) = lock(&ending).take() else { return };
                    (0..round % 64).for_each(|_| spin_loop());
                    inbox.close();
                    while inbox.try_recv().is_ok() {}
                    drop(inbox);
                    ended.store(round, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                if yields.load(Ordering::Relaxed) > MAX_YIELDS {
                    break;
                }
                let (sender, inbox) = command_channel();
                *lock(&ending) = Some(inbox);
                let (reply, mut answer) = oneshot::channel();
                let what = Operation::Request(Request::Ping);
                let job = OperationJob { what, round_trip: 0, reply };
                begun.store(round, Ordering::Release);
                (0..round / 64 % 64).for_each(|_| spin_loop());
                sender.send(SessionCommand::Operation(1, job));
                wait_for(&ended, round, &yields);
                unanswered += u32::from(answer.try_recv().is_err_and(|it| it == NoReply::Empty));
            }
            // Without an inbox, the other thread ends.
            begun.store(ROUNDS, Ordering::Release);
        });
        assert_eq!(unanswered, 0);
    }
}

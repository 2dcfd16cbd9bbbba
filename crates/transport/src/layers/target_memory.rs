//! The current target of a file, and the way back to its first server.
//!
//! A redirect holds for later requests for the same file, which are sent to its target at once. A
//! target that fails may be the wrong one, or no longer the right one: the next request goes to the
//! first server again, which may redirect it to another target. This happens at most
//! [`MAX_FALLBACKS`] times until something was read.
//!
//! Requests run in parallel. Each begins in a *turn*, and only its first outcome that changes the
//! target counts: the others began with a target that is no longer the current one.

use crate::location::Location;
use hither_core::error::{Error, Failure};
use hither_core::sync::lock;
use std::sync::{Mutex, MutexGuard};
use tracing::debug;

/// The maximum number of times that the first server is asked again after a redirect target failed.
const MAX_FALLBACKS: usize = 3;

/// The memory of the current target.
#[derive(Debug)]
pub(crate) struct TargetMemory<T> {
    first: Location,
    current: Mutex<CurrentTarget<T>>,
}

/// The target of the next request.
#[derive(Debug, Clone)]
pub(crate) struct CurrentTarget<T> {
    /// The target.
    pub(crate) target: T,
    /// The hosts that failed since something was read.
    pub(crate) tried: Vec<String>,
    /// The number of changes of the target.
    pub(crate) turn: u64,
}

impl<T: Clone> TargetMemory<T> {
    /// The memory of a file at `first`, whose requests begin with `target`.
    pub(crate) fn new(first: Location, target: T) -> Self {
        let current = CurrentTarget { target, tried: Vec::new(), turn: 0 };
        Self { first, current: Mutex::new(current) }
    }

    /// The URL that the file was opened with.
    pub(crate) fn first(&self) -> &Location {
        &self.first
    }

    /// A copy of the current target.
    pub(crate) fn current(&self) -> CurrentTarget<T> {
        self.lock().clone()
    }

    /// The current target, locked.
    pub(crate) fn lock(&self) -> MutexGuard<'_, CurrentTarget<T>> {
        lock(&self.current)
    }

    /// Records that something was read: the current target works.
    pub(crate) fn arrived(&self) {
        self.lock().tried.clear();
    }

    /// Returns true if a target on this host has failed since something was read.
    pub(crate) fn has_failed(&self, target: &Location) -> bool {
        self.lock().tried.iter().any(|host| host == target.host())
    }

    /// Changes the target, unless another request has changed it since `turn`.
    pub(crate) fn change(&self, turn: u64, to: impl FnOnce(&T) -> T) {
        let mut current = self.lock();
        if current.turn == turn {
            let target = to(&current.target);
            current.turn_to(target);
        }
    }

    /// Handles the failure of a request that was sent to `from` in `turn`: the next one is sent to
    /// the first server. Returns the error, which allows a retry unless there was no redirect, or
    /// too many targets have failed.
    pub(crate) fn fall_back(
        &self,
        turn: u64,
        from: &Location,
        error: Error,
        to: impl FnOnce(&Location) -> T,
    ) -> Error {
        let mut current = self.lock();
        if *from == self.first || current.tried.len() >= MAX_FALLBACKS {
            return error;
        }
        if current.turn == turn {
            debug!(%from, to = %self.first, %error, "target failed, asking the first server again");
            current.tried.push(from.host().to_owned());
            current.turn_to(to(&self.first));
        }
        error.with_failure(Failure::Redirected)
    }
}

impl<T> CurrentTarget<T> {
    /// Changes the target.
    pub(crate) fn turn_to(&mut self, target: T) {
        self.target = target;
        self.turn += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::error::{ErrorKind, Retry};

    fn at(host: &str) -> Location {
        Location::parse(&format!("http://{host}/f")).unwrap()
    }

    fn memory() -> TargetMemory<Location> {
        TargetMemory::new(at("first"), at("first"))
    }

    fn fails(memory: &TargetMemory<Location>, turn: u64, from: &str) -> Retry {
        let error = Error::new(ErrorKind::NotFound, "no such file");
        memory.fall_back(turn, &at(from), error, Clone::clone).retry()
    }

    #[test]
    fn parallel_requests_change_the_target_once() {
        let memory = memory();
        let turn = memory.current().turn;
        memory.change(turn, |_| at("second"));
        memory.change(turn, |_| at("third"));
        assert_eq!(memory.current().target, at("second"));
        let turn = memory.current().turn;
        for _ in 0..2 {
            assert_eq!(fails(&memory, turn, "second"), Retry::AtOnce);
        }
        let current = memory.current();
        assert_eq!((current.target, current.tried), (at("first"), vec!["second".to_owned()]));
    }

    #[test]
    fn the_first_server_is_asked_again_until_three_targets_have_failed() {
        let memory = memory();
        let redirected = || {
            memory.change(memory.current().turn, |_| at("other"));
            fails(&memory, memory.current().turn, "other") != Retry::Never
        };
        assert!((0..MAX_FALLBACKS).all(|_| redirected()));
        assert!(!redirected());
        memory.arrived();
        assert!(redirected());
        assert_eq!(fails(&memory, memory.current().turn, "first"), Retry::Never);
    }
}

//! The end of the interpreter, which must not find threads of ours at work in it.
//!
//! Before 3.14, CPython ends a thread that wants the GIL back while the interpreter is ending by unwinding its stack. PyO3
//! keeps that from frames of Rust where a thread attaches, but a thread that is attached also gives the GIL away and takes it
//! back in the midst of any Python code that it calls: then the process dies. So threads of the runtime go through a gate,
//! which is closed (`atexit`) while all threads may still run; whoever is inside is waited for.
//!
//! A child that was forked has a gate of its own: the threads that were inside are not in the child.

use pyo3::prelude::*;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::park_timeout;
use std::time::Duration;

/// The number of the process; whether the gate is closed; how many are inside. It is the interpreter's, and a process has one.
static GATE: AtomicU64 = AtomicU64::new(0);
const CLOSED: u64 = 1 << 31;
const INSIDE: u64 = CLOSED - 1;

/// How often, and how many times, those inside are looked for: what they do takes microseconds, and what hangs must not keep
/// the process.
const LOOK: Duration = Duration::from_millis(1);
const MAX_LOOKS: usize = 2000;

/// The gate, as this process has it.
fn of_process(gate: u64) -> u64 {
    let own = u64::from(process::id()) << 32;
    if gate & !(CLOSED | INSIDE) == own { gate } else { own }
}

/// A thread that may use the interpreter: it does not end meanwhile.
#[derive(Debug)]
pub(crate) struct InterpreterGuard(());

impl InterpreterGuard {
    /// None when the interpreter is about to end.
    pub(crate) fn enter() -> Option<Self> {
        let enter =
            |gate| Some(of_process(gate)).filter(|gate| gate & CLOSED == 0).map(|it| it + 1);
        let entered = GATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter);
        entered.ok().map(|_| Self(()))
    }
}

impl Drop for InterpreterGuard {
    fn drop(&mut self) {
        GATE.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Closes the gate, and waits for those inside. Event loops hear no more of jobs.
#[pyfunction]
pub(crate) fn shutdown(py: Python<'_>) {
    let close = |gate| Some(of_process(gate) | CLOSED);
    // It always closes.
    let _ = GATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, close);
    py.detach(|| {
        for _ in 0..MAX_LOOKS {
            if GATE.load(Ordering::Acquire) & INSIDE == 0 {
                break;
            }
            park_timeout(LOOK);
        }
    });
}

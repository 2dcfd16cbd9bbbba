//! Shutdown of the interpreter, during which no thread of the library may use it.
//!
//! Before 3.14, CPython unwinds the stack of a thread that takes the GIL while the interpreter
//! shuts down. PyO3 handles that when a thread attaches. But an attached thread also releases and
//! takes the GIL in the middle of any Python code that it calls; unwinding there ends the process.
//! So threads of the runtime pass a gate. `atexit` closes it while all threads may still run, and
//! waits for the threads inside.
//!
//! A forked child has its own gate, because the threads inside do not exist in the child.

use pyo3::prelude::*;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::park_timeout;
use std::time::Duration;

/// Process id, closed flag and number of threads inside; one gate for the process's interpreter.
static GATE: AtomicU64 = AtomicU64::new(0);
const CLOSED: u64 = 1 << 31;
const INSIDE: u64 = CLOSED - 1;

/// Interval between checks for threads inside; they leave within microseconds.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Number of checks after which the process ends in any case: a thread may hang.
const MAX_CHECKS: usize = 2000;

/// The gate of this process: `gate` itself, or an open gate in a forked child.
fn of_process(gate: u64) -> u64 {
    let own = u64::from(process::id()) << 32;
    if gate & !(CLOSED | INSIDE) == own { gate } else { own }
}

/// Permission for a thread to use the interpreter, which delays its shutdown.
#[derive(Debug)]
pub(crate) struct InterpreterGuard(());

impl InterpreterGuard {
    /// Enters the gate; returns `None` if the interpreter is shutting down.
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

/// Closes the gate and waits for threads inside. Event loops get no more results of jobs.
#[pyfunction]
pub(crate) fn shutdown(py: Python<'_>) {
    let close = |gate| Some(of_process(gate) | CLOSED);
    // `close` never returns `None`, so the update succeeds.
    let _ = GATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, close);
    py.detach(|| {
        for _ in 0..MAX_CHECKS {
            if GATE.load(Ordering::Acquire) & INSIDE == 0 {
                break;
            }
            park_timeout(CHECK_INTERVAL);
        }
    });
}

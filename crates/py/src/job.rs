//! What Python waits for.
//!
//! A [`Job`] is one operation that has not begun. There are two ways to wait for it. `wait` runs it on the calling thread,
//! which releases the GIL, and takes it back ten times a second to see whether a signal has come: Ctrl-C is answered by
//! dropping the operation, which cancels it. `await` runs it on the client's runtime and settles a future of the running
//! event loop when it is done; a future that is cancelled aborts it.
//!
//! The threads of the runtime never wait for the GIL: they serve sockets, and the GIL may be held for as long as a program
//! computes. Results are handed over by threads that are there to block.

use crate::error::{closed, to_exception};
use crate::fork::{ClientHandle, PerProcess};
use crate::shutdown::InterpreterGuard;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hither::Error;
use pyo3::exceptions::asyncio::CancelledError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Between two looks for signals. Ctrl-C is to be answered within 200 ms.
const PATIENCE: Duration = Duration::from_millis(100);

/// Makes an object of a result.
type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// An operation, and the client that it is for.
struct Work {
    client: Arc<ClientHandle>,
    future: BoxFuture<'static, Result<Answer, Error>>,
}

/// An operation that has not begun: `wait()` for it, or `await` it, once.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct Job {
    work: Mutex<PerProcess<Work>>,
}

impl Job {
    /// A job of `client`, of whose result `answer` makes an object.
    pub(crate) fn new<T: Send + 'static>(
        client: &Arc<ClientHandle>,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
        answer: impl FnOnce(T, Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let whole = future.map(|done| {
            done.map(|value| Box::new(move |py: Python<'_>| answer(value, py)) as Answer)
        });
        let work = Work { client: Arc::clone(client), future: whole.boxed() };
        Self { work: Mutex::new(PerProcess::new(work)) }
    }

    fn take(&self) -> PyResult<Work> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.take().ok_or_else(|| closed("a job that was waited for, or is of another process,"))
    }
}

#[pymethods]
impl Job {
    /// Does it, and waits for it; meanwhile calls `tick` ten times a second.
    #[pyo3(signature = (tick = None))]
    fn wait(&self, py: Python<'_>, tick: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let Work { client, mut future } = self.take()?;
        loop {
            let some = py.detach(|| {
                client
                    .client()
                    .block_on(async { tokio::time::timeout(PATIENCE, &mut future).await })
            });
            match some {
                Ok(done) => {
                    return done
                        .map_err(|error| to_exception(&error))
                        .and_then(|answer| answer(py));
                }
                Err(_) => {
                    py.check_signals()?;
                    tick.map(Bound::call0).transpose()?;
                }
            }
        }
    }

    /// Does it on the client's threads, and wakes the running event loop.
    fn __await__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let event_loop = py.import("asyncio")?.call_method0("get_running_loop")?;
        let result = event_loop.call_method0("create_future")?;
        // Nothing would settle it.
        drop(InterpreterGuard::enter().ok_or_else(|| closed("the interpreter"))?);
        let Work { client, future } = self.take()?;
        let waiting = Waiting { event_loop: event_loop.unbind(), result: result.clone().unbind() };
        let runtime = client.client().runtime().clone();
        let hand_over = runtime.clone();
        let task = runtime.spawn(async move {
            let done = future.await;
            // It outlives the job: the event loop that waits for it must hear of it.
            drop(hand_over.spawn_blocking(move || waiting.settle(done)));
            drop(client);
        });
        let abort = Abort(task.abort_handle());
        result.call_method1("add_done_callback", (Bound::new(py, abort)?,))?;
        result.call_method0("__await__")
    }
}

/// Aborts a job whose future is done for, which it is when the job is done, too.
#[pyclass(frozen)]
struct Abort(AbortHandle);

#[pymethods]
impl Abort {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        self.0.abort();
    }
}

/// An event loop that waits.
struct Waiting {
    event_loop: Py<PyAny>,
    result: Py<PyAny>,
}

impl Waiting {
    fn settle(self, done: Result<Answer, Error>) {
        // None when the interpreter is about to end: nobody waits any more.
        let Some(_inside) = InterpreterGuard::enter() else { return };
        Python::try_attach(|py| {
            let made = done.map_err(|error| to_exception(&error)).and_then(|answer| answer(py));
            let settle = Bound::new(py, Settle { made: Mutex::new(Some(made)) });
            let told = settle.and_then(|settle| {
                let context = PyDict::new(py);
                context.set_item("context", py.import("contextvars")?.call_method0("Context")?)?;
                let arguments = (settle, self.result.bind(py));
                self.event_loop.bind(py).call_method(
                    "call_soon_threadsafe",
                    arguments,
                    Some(&context),
                )
            });
            // A loop that was closed meanwhile has nobody to tell.
            drop(told);
        });
    }
}

/// Gives a future its result, on the thread of its loop.
#[pyclass(frozen)]
struct Settle {
    made: Mutex<Option<PyResult<Py<PyAny>>>>,
}

#[pymethods]
impl Settle {
    fn __call__(&self, py: Python<'_>, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner).take();
        if future.call_method0("done")?.is_truthy()? {
            return Ok(());
        }
        match made {
            Some(Ok(value)) => future.call_method1("set_result", (value,))?,
            Some(Err(error)) => future.call_method1("set_exception", (error.value(py),))?,
            None => {
                future.call_method1("set_exception", (CancelledError::new_err(()).value(py),))?
            }
        };
        Ok(())
    }
}

//! Operations that Python waits for, with or without an event loop.
//!
//! A [`Job`] is an operation that has not started. There are two ways to wait for it. `wait` runs
//! it on the calling thread, which releases the GIL and takes it every 100 ms to check for signals:
//! Ctrl-C drops the operation, which cancels it. `await` runs it on the client's runtime, which
//! sets the result of a future of the running event loop; cancelling the future aborts the
//! operation.
//!
//! Threads of the runtime never wait for the GIL, which a program may hold while it computes: they
//! serve sockets. Blocking threads deliver the results.

use crate::error::{invalid, of_panic, to_exception};
use crate::fork::ClientHandle;
use crate::shutdown::InterpreterGuard;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hither::{Error, PerProcess};
use hither_core::sync::lock;
use pyo3::exceptions::asyncio::CancelledError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Interval between checks for signals; Ctrl-C must take effect within 200 ms.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Conversion of a result to an object.
type Conversion = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// An operation and its client.
struct Work {
    client: Arc<ClientHandle>,
    future: BoxFuture<'static, Result<Conversion, Error>>,
}

/// An operation that has not started. Wait for it once, with `wait` or `await`.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct Job {
    work: Mutex<PerProcess<Work>>,
}

impl Job {
    /// Creates a job of `client`; `convert` converts its result to an object.
    pub(crate) fn new<T: Send + 'static>(
        client: &Arc<ClientHandle>,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
        convert: impl FnOnce(T, Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let whole = future.map(|done| {
            done.map(|value| Box::new(move |py: Python<'_>| convert(value, py)) as Conversion)
        });
        let work = Work { client: Arc::clone(client), future: whole.boxed() };
        Self { work: Mutex::new(PerProcess::new(work)) }
    }

    fn take(&self) -> PyResult<Work> {
        let message = "the job was waited for before, or was made in another process";
        lock(&self.work).take().ok_or_else(|| invalid(message))
    }
}

#[pymethods]
impl Job {
    /// Runs the operation and waits for it; calls `tick` every 100 ms.
    #[pyo3(signature = (tick = None))]
    fn wait(&self, py: Python<'_>, tick: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let Work { client, mut future } = self.take()?;
        loop {
            let done = py.detach(|| {
                client
                    .client()
                    .block_on(async { tokio::time::timeout(SIGNAL_INTERVAL, &mut future).await })
            });
            match done {
                Ok(done) => {
                    return done
                        .map_err(|error| to_exception(&error))
                        .and_then(|convert| convert(py));
                }
                Err(_) => {
                    py.check_signals()?;
                    tick.map(Bound::call0).transpose()?;
                }
            }
        }
    }

    /// Runs the operation on the client's threads and wakes the running event loop.
    fn __await__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let event_loop = py.import("asyncio")?.call_method0("get_running_loop")?;
        let result = event_loop.call_method0("create_future")?;
        // After shutdown no thread would set the result.
        drop(InterpreterGuard::enter().ok_or_else(|| invalid("the interpreter is shutting down"))?);
        let Work { client, future } = self.take()?;
        let waiting = Waiting { event_loop: event_loop.unbind(), result: result.clone().unbind() };
        let runtime = client.client().runtime().clone();
        let hand_over = runtime.clone();
        let task = runtime.spawn(async move {
            let done = AssertUnwindSafe(future).catch_unwind().await;
            // Not aborted with the job, because the event loop waits for the result. It keeps the
            // client: a runtime that ends drops what has not begun.
            drop(hand_over.spawn_blocking(move || {
                waiting.settle(done);
                drop(client);
            }));
        });
        let abort = Abort(task.abort_handle());
        result.call_method1("add_done_callback", (Bound::new(py, abort)?,))?;
        result.call_method0("__await__")
    }
}

/// Callback of the future: aborts the job, which does nothing if the job is done.
#[pyclass(frozen)]
struct Abort(AbortHandle);

#[pymethods]
impl Abort {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        self.0.abort();
    }
}

/// A future of an event loop that waits for the result of a job.
struct Waiting {
    event_loop: Py<PyAny>,
    result: Py<PyAny>,
}

impl Waiting {
    /// Sets the result, also after a panic: the event loop would wait for it for ever.
    fn settle(self, done: std::thread::Result<Result<Conversion, Error>>) {
        // `None` if the interpreter is shutting down: the result is no longer needed.
        let Some(_inside) = InterpreterGuard::enter() else { return };
        Python::try_attach(|py| {
            let convert = |done: Result<Conversion, Error>| {
                let made = done.map_err(|error| to_exception(&error));
                // An exception is an object only once it is used.
                made.and_then(|convert| convert(py)).inspect_err(|error| _ = error.value(py))
            };
            let made = done
                .and_then(|done| catch_unwind(AssertUnwindSafe(|| convert(done))))
                .unwrap_or_else(|panic| Err(of_panic(&*panic)));
            let settle = Bound::new(py, Settle { made: Mutex::new(Some(made)) });
            let scheduled = settle.and_then(|settle| {
                let context = PyDict::new(py);
                context.set_item("context", py.import("contextvars")?.call_method0("Context")?)?;
                let arguments = (settle, self.result.bind(py));
                self.event_loop.bind(py).call_method(
                    "call_soon_threadsafe",
                    arguments,
                    Some(&context),
                )
            });
            // Fails if the event loop was closed meanwhile: it no longer waits.
            drop(scheduled);
        });
    }
}

/// Callback that sets the result of a future, on the thread of its loop.
#[pyclass(frozen)]
struct Settle {
    made: Mutex<Option<PyResult<Py<PyAny>>>>,
}

#[pymethods]
impl Settle {
    fn __call__(&self, py: Python<'_>, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let made = lock(&self.made).take();
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

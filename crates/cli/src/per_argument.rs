//! Commands with several arguments: an error of one argument does not affect the others.

use crate::exit::{CommandError, print_error};
use crate::output::{JsonArray, print};
use hither::{Client, TreeUrl};
use hither_core::sync::lock;
use hither_transport::redact_url;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};

/// The results so far. An error is printed when the next one occurs, the last one at the end of the
/// command; the exit code is that of the first error.
#[derive(Debug)]
pub(crate) struct ArgumentResults {
    json: bool,
    done: Vec<Value>,
    errors: Vec<Value>,
    last: Option<CommandError>,
}

impl ArgumentResults {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, done: Vec::new(), errors: Vec::new(), last: None }
    }

    /// Adds a result: prints its text, or collects its object for `--json`.
    pub(crate) fn done(&mut self, text: &str, object: Value) -> std::io::Result<()> {
        if !self.json {
            return print(text);
        }
        self.done.push(object);
        Ok(())
    }

    /// Prints a heading, unless the output is JSON.
    pub(crate) fn title(&self, text: &str) -> std::io::Result<()> {
        if self.json { Ok(()) } else { print(text) }
    }

    /// Adds an error.
    pub(crate) fn failed(&mut self, argument: &str, failure: CommandError) {
        self.errors.push(json!({ "argument": argument, "error": failure.object() }));
        self.last = Some(match self.last.take() {
            None => failure,
            Some(before) => {
                print_error(&before);
                failure.after(&before)
            }
        });
    }

    /// Ends an array of objects that were printed one by one, if the output is JSON. Returns the
    /// last error, if any.
    pub(crate) fn end_array(self, array: &JsonArray) -> Result<(), CommandError> {
        if self.json {
            array.end(&json!({ "errors": self.errors }))?;
        }
        self.last.map_or(Ok(()), |failure| Err(failure.printed()))
    }

    /// Ends the output: with `--json`, prints `{NAME: […], "errors": […]}`. Returns the last error,
    /// if any.
    pub(crate) fn end(self, name: &str) -> Result<(), CommandError> {
        if self.json {
            let object = json!({ name: self.done, "errors": self.errors });
            print(&format!("{object}\n"))?;
        }
        self.last.map_or(Ok(()), |failure| Err(failure.printed()))
    }
}

/// The arguments, with patterns replaced by the names that match. Calls `failed` with an argument
/// and its error.
pub(crate) fn expand(
    client: &Client,
    arguments: &[String],
    failed: impl FnMut(&str, CommandError),
) -> Vec<String> {
    expand_if_known(client, arguments, false, failed)
}

/// Like [`expand`]. With `absent`, a pattern fails if the server refuses to state whether a file
/// with exactly that name exists.
pub(crate) fn expand_if_known(
    client: &Client,
    arguments: &[String],
    absent: bool,
    mut failed: impl FnMut(&str, CommandError),
) -> Vec<String> {
    let mut urls = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let shown = redact_url(argument);
        match client.block_on(client.matching_urls(argument)) {
            Ok(found) => {
                if let Some(error) = found.refused.filter(|_| absent) {
                    failed(&shown, error.into());
                    continue;
                }
                urls.extend(found.urls);
                found.failures.into_iter().for_each(|error| failed(&shown, error.into()));
            }
            Err(error) => failed(&shown, error.into()),
        }
    }
    urls
}

/// The file and the tree of `text`, whose pattern has to match one file.
pub(crate) fn tree_target(client: &Client, text: &str) -> Result<TreeUrl, CommandError> {
    let TreeUrl { url, tree } = TreeUrl::parse(text);
    let found = client.block_on(client.matching_urls(&url))?;
    if let Some(error) = found.failures.into_iter().next() {
        return Err(error.into());
    }
    match <[String; 1]>::try_from(found.urls) {
        Ok([url]) => Ok(TreeUrl { url, tree }),
        Err(urls) => {
            let names: Vec<_> = urls.iter().take(3).map(|url| redact_url(url)).collect();
            Err(CommandError::usage(format!(
                "{} files match {}, expected one: {}",
                urls.len(),
                redact_url(&url),
                names.join(", ")
            )))
        }
    }
}

/// A counting semaphore for threads.
#[derive(Debug)]
pub(crate) struct Semaphore {
    free: Mutex<usize>,
    left: Condvar,
}

impl Semaphore {
    pub(crate) fn new(most: usize) -> Self {
        Self { free: Mutex::new(most.max(1)), left: Condvar::new() }
    }

    /// Runs `work` with a permit, which returns also if `work` panics; waits for the permit.
    pub(crate) fn pass<T>(&self, work: impl FnOnce() -> T) -> T {
        let free = lock(&self.free);
        let mut free =
            self.left.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        let _permit = Permit(self);
        work()
    }
}

/// A permit of a semaphore, until it is dropped.
struct Permit<'a>(&'a Semaphore);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.left.notify_one();
    }
}

/// Maximum number of arguments processed at a time; the library limits the requests per server.
const MAX_PARALLEL: usize = 32;

/// Runs `ask` for all arguments in parallel, and `then` with the results in their order.
pub(crate) fn run_parallel<A: Sync, T: Send>(
    arguments: &[A],
    ask: impl Fn(&A) -> T + Sync,
    mut then: impl FnMut(&A, T) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..arguments.len().min(MAX_PARALLEL) {
            let next = &next;
            let ask = &ask;
            let sender = sender.clone();
            scope.spawn(move || {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(argument) = arguments.get(nth) else { return };
                    // Fails if the receiver has stopped.
                    if sender.send((nth, ask(argument))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut turn = 0;
        for (nth, result) in results {
            early.insert(nth, result);
            while let Some(result) = early.remove(&turn) {
                if let Some(argument) = arguments.get(turn) {
                    then(argument, result)?;
                }
                turn += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closure_that_panics_returns_its_permit() {
        let gate = Semaphore::new(1);
        let pass = || gate.pass(|| panic!("a defect"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(pass)).is_err());
        assert_eq!(*lock(&gate.free), 1);
    }

    #[test]
    fn results_come_in_the_order_of_the_arguments() {
        let arguments: Vec<_> = (0..100).map(|nth| nth.to_string()).collect();
        let first = std::sync::Barrier::new(MAX_PARALLEL);
        let mut seen = Vec::new();
        let ask = |argument: &String| {
            let nth: usize = argument.parse().unwrap();
            // No closure returns before all have started, which proves that they run in parallel.
            if nth < MAX_PARALLEL {
                first.wait();
            }
            nth * 2
        };
        run_parallel(&arguments, ask, |argument, answer| {
            seen.push((argument.parse::<usize>().unwrap(), answer));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, (0..100).map(|nth| (nth, nth * 2)).collect::<Vec<_>>());
    }

    #[test]
    fn a_semaphore_limits_the_number_of_running_closures() {
        let gate = Semaphore::new(3);
        let within = AtomicUsize::new(0);
        let most = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    gate.pass(|| {
                        most.fetch_max(
                            within.fetch_add(1, Ordering::Relaxed) + 1,
                            Ordering::Relaxed,
                        );
                        std::thread::yield_now();
                        within.fetch_sub(1, Ordering::Relaxed);
                    });
                });
            }
        });
        assert!((1..=3).contains(&most.into_inner()));
    }
}

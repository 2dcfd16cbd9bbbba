//! One thing after another, whatever became of the ones before: how verbs with several arguments work.

use crate::exit::{CommandError, print_error};
use crate::output::print;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};

/// What came out so far. Failures are told as they come; the exit code is that of the first.
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

    /// Something went well: what is printed, or with `--json` listed.
    pub(crate) fn done(&mut self, text: &str, object: Value) -> std::io::Result<()> {
        if !self.json {
            return print(text);
        }
        self.done.push(object);
        Ok(())
    }

    /// A heading for people.
    pub(crate) fn title(&self, text: &str) -> std::io::Result<()> {
        if self.json { Ok(()) } else { print(text) }
    }

    /// Something failed.
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

    /// The end: `{NAME: […], "errors": […]}` if that is wanted, and the failure if there was one.
    pub(crate) fn end(self, name: &str) -> Result<(), CommandError> {
        if self.json {
            let object = json!({ name: self.done, "errors": self.errors });
            print(&format!("{object}\n"))?;
        }
        self.last.map_or(Ok(()), |failure| Err(failure.printed()))
    }
}

/// Lets so many pass at a time.
#[derive(Debug)]
pub(crate) struct Semaphore {
    free: Mutex<usize>,
    left: Condvar,
}

impl Semaphore {
    pub(crate) fn new(most: usize) -> Self {
        Self { free: Mutex::new(most.max(1)), left: Condvar::new() }
    }

    /// Waits for its turn, and does `work`.
    pub(crate) fn pass<T>(&self, work: impl FnOnce() -> T) -> T {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free =
            self.left.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        let done = work();
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.left.notify_one();
        done
    }
}

/// Arguments that are asked about at a time; the library sees to it that no server gets more than it takes.
const AT_ONCE: usize = 32;

/// Asks about arguments side by side, and hands on what came of each, in their order.
pub(crate) fn run_parallel<T: Send>(
    arguments: &[String],
    ask: impl Fn(&str) -> T + Sync,
    mut then: impl FnMut(&str, T) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let next = AtomicUsize::new(0);
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..arguments.len().min(AT_ONCE) {
            let (next, ask, tell) = (&next, &ask, tell.clone());
            scope.spawn(move || {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(argument) = arguments.get(nth) else { return };
                    // It fails when nobody wants to know any more.
                    if tell.send((nth, ask(argument))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        let (mut early, mut turn) = (BTreeMap::new(), 0);
        for (nth, answer) in told {
            early.insert(nth, answer);
            while let Some(answer) = early.remove(&turn) {
                if let Some(argument) = arguments.get(turn) {
                    then(argument, answer)?;
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
    fn answers_come_in_the_order_of_the_questions() {
        let arguments: Vec<_> = (0..100).map(|nth| nth.to_string()).collect();
        let first = std::sync::Barrier::new(AT_ONCE);
        let mut seen = Vec::new();
        let ask = |argument: &str| {
            let nth: usize = argument.parse().unwrap();
            // Nobody answers before that many have been asked: they are asked side by side.
            if nth < AT_ONCE {
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
    fn a_gate_lets_so_many_pass_at_a_time() {
        let (gate, within) = (Semaphore::new(3), AtomicUsize::new(0));
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

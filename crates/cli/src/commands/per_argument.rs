//! One thing after another, whatever became of the ones before: how verbs with several arguments work.

use super::print;
use crate::exit::{CommandError, tell};
use hither::{DirEntry, FileKind, StoragePath};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

/// What came out so far. Failures are told as they come; the exit code is that of the first.
#[derive(Debug)]
pub(super) struct ArgumentResults {
    json: bool,
    done: Vec<Value>,
    errors: Vec<Value>,
    last: Option<CommandError>,
}

impl ArgumentResults {
    pub(super) fn new(json: bool) -> Self {
        Self { json, done: Vec::new(), errors: Vec::new(), last: None }
    }

    /// Something went well: what is printed, or with `--json` listed.
    pub(super) fn done(&mut self, text: &str, object: Value) -> std::io::Result<()> {
        if !self.json {
            return print(text);
        }
        self.done.push(object);
        Ok(())
    }

    /// A heading for people.
    pub(super) fn title(&self, text: &str) -> std::io::Result<()> {
        if self.json { Ok(()) } else { print(text) }
    }

    /// Something failed.
    pub(super) fn failed(&mut self, argument: &str, failure: CommandError) {
        self.errors.push(json!({ "argument": argument, "error": failure.object() }));
        self.last = Some(match self.last.take() {
            None => failure,
            Some(before) => {
                tell(&before);
                failure.after(&before)
            }
        });
    }

    /// The end: `{NAME: […], "errors": […]}` if that is wanted, and the failure if there was one.
    pub(super) fn end(self, name: &str) -> Result<(), CommandError> {
        if self.json {
            let object = json!({ name: self.done, "errors": self.errors });
            print(&format!("{object}\n"))?;
        }
        self.last.map_or(Ok(()), |failure| Err(failure.told()))
    }
}

/// Lets so many pass at a time.
#[derive(Debug)]
pub(super) struct Semaphore {
    free: Mutex<usize>,
    left: Condvar,
}

impl Semaphore {
    pub(super) fn new(most: usize) -> Self {
        Self { free: Mutex::new(most.max(1)), left: Condvar::new() }
    }

    /// Waits for its turn, and does `work`.
    pub(super) fn pass<T>(&self, work: impl FnOnce() -> T) -> T {
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
pub(super) fn run_parallel<T: Send>(
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

/// A URL as it may be repeated: what may be a secret in it is left out.
pub(super) fn redact_url(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// What a name stands for, in a word.
pub(super) fn kind(entry: &DirEntry) -> &'static str {
    match entry.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    }
}

/// An entry for programs.
pub(super) fn object(named: &StoragePath, entry: &DirEntry) -> Value {
    json!({
        "url": named.display_url(&entry.path),
        "kind": kind(entry),
        "size": entry.size,
        "modified": entry.modified.map(|time| format!("{}Z", date(time).replace(' ', "T"))),
        "validator": entry.validator,
    })
}

/// `2026-11-21 15:20:04`, in universal time.
pub(super) fn date(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, seconds) = (since / 86_400, since % 86_400);
    // Years from March on, in cycles of 400 years, so that the day that is sometimes there is the last of its year.
    let shifted = days + 719_468;
    let (cycle, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = cycle * 400 + year + carry;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let seconds = seconds % 60;
    format!("{year:04}-{month:02}-{day_of_month:02} {hours:02}:{minutes:02}:{seconds:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (1_709_164_800, "2024-02-29 00:00:00"),
            (1_735_689_599, "2024-12-31 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(date(time), text);
        }
    }

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

    #[test]
    fn secrets_are_not_repeated() {
        assert_eq!(redact_url("http://h/a?authz=hush#x"), "http://h/a");
    }
}

//! `known-work SECONDS`: work whose shares are known, for tests of profiles.
//!
//! On each CPU a thread repeats 30 % of computing, 20 % of system calls, 20 % of copies through a
//! pipe and 30 % of sleep. At the end one line of JSON says how many seconds of CPU time each took
//! and how long was slept, in sum. The lengths vary, so that they do not keep step with samples.

use crate::ProgramResult;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::time::Duration;

const MIN_UNIT: Duration = Duration::from_micros(500);
const BLOCK: usize = 64 << 10;

#[derive(Default)]
struct Spent {
    computing: Duration,
    calling: Duration,
    copying: Duration,
    sleeping: Duration,
}

fn now(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// Repeats `work` for some CPU time of this thread; returns how much it was.
fn repeat(length: Duration, mut work: impl FnMut()) -> Duration {
    let started = now(ClockId::ThreadCPUTime);
    loop {
        work();
        let took = now(ClockId::ThreadCPUTime) - started;
        if took >= length {
            return took;
        }
    }
}

fn compute() {
    let mut state = 1_u64;
    for step in 0..50_000 {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
    }
}

fn call() {
    for _ in 0..500 {
        black_box(std::os::unix::process::parent_id());
    }
}

fn copy(from: &mut PipeReader, to: &mut PipeWriter, block: &mut [u8]) -> std::io::Result<()> {
    to.write_all(block)?;
    from.read_exact(block)
}

#[expect(clippy::disallowed_methods, reason = "a program without a runtime")]
fn work(length: Duration) -> std::io::Result<Spent> {
    let mut spent = Spent::default();
    let mut block = vec![1; BLOCK];
    let (mut from, mut to) = pipe()?;
    let mut random = 1_u32;
    let started = now(ClockId::Monotonic);
    while now(ClockId::Monotonic) - started < length {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let unit = MIN_UNIT + Duration::from_micros(u64::from(random >> 22));
        spent.computing += repeat(3 * unit, compute);
        spent.calling += repeat(2 * unit, call);
        let mut copied = Ok(());
        spent.copying += repeat(2 * unit, || {
            if copied.is_ok() {
                copied = copy(&mut from, &mut to, &mut block);
            }
        });
        copied?;
        let worked = spent.computing + spent.calling + spent.copying;
        let sleeps = now(ClockId::Monotonic);
        std::thread::sleep((worked * 3 / 7).saturating_sub(spent.sleeping));
        spent.sleeping += now(ClockId::Monotonic) - sleeps;
    }
    Ok(spent)
}

pub(crate) fn run(words: Vec<String>) -> ProgramResult {
    let seconds = words.first().and_then(|it| it.parse().ok());
    let length = Duration::from_secs_f64(seconds.unwrap_or(10.0));
    let threads = std::thread::available_parallelism()?.get();
    let workers: Vec<_> = (0..threads).map(|_| std::thread::spawn(move || work(length))).collect();
    let mut total = Spent::default();
    for worker in workers {
        let spent = worker.join().map_err(|_| std::io::Error::other("a worker failed"))??;
        total.computing += spent.computing;
        total.calling += spent.calling;
        total.copying += spent.copying;
        total.sleeping += spent.sleeping;
    }
    let Spent { computing, calling, copying, sleeping } = total;
    let [computing, calling, copying, sleeping] =
        [computing, calling, copying, sleeping].map(|it| it.as_secs_f64());
    println!(
        "{{\"computing\":{computing},\"calling\":{calling},\"copying\":{copying},\"sleeping\":{sleeping}}}"
    );
    Ok(())
}

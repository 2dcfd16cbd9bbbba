//! Happy Eyeballs: the address that responds first is used (RFC 8305 section 5).
//!
//! A name may stand for several machines, or for one machine by two protocols, and any of the
//! addresses may not respond. Trying them one after another makes a user wait minutes until the
//! kernel gives up on the first. Trying all at once costs the servers unused connections. So an
//! address gets a head start: if it has not responded within [`HEAD_START`], the next one is tried
//! concurrently, or at once when an attempt fails. The first connection wins, and all other
//! attempts are dropped.
//!
//! The attempt itself is a parameter: tests pass their own and let virtual time run.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::time::Duration;

/// The head start of an address before the next one is tried, as RFC 8305 section 8 recommends.
pub(crate) const HEAD_START: Duration = Duration::from_millis(250);

/// The address, of a server or of this end, that responded first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RaceWinner<A, T> {
    pub(crate) address: A,
    pub(crate) value: T,
    /// Addresses that had a head start and failed or did not respond. Next time they are tried
    /// last.
    pub(crate) passed_over: Vec<A>,
}

/// Tries `addresses` in their order until one responds.
///
/// # Errors
///
/// The error of each address, in the order in which they failed.
pub(crate) async fn connect_first<A, T, E, F>(
    addresses: &[A],
    attempt: impl Fn(A) -> F + Send,
) -> Result<RaceWinner<A, T>, Vec<(A, E)>>
where
    A: Copy + PartialEq + Send + Sync,
    T: Send,
    E: Send,
    F: Future<Output = Result<T, E>> + Send,
{
    let mut waiting = addresses.iter().copied();
    let mut started = Vec::new();
    let mut failures: Vec<(A, E)> = Vec::new();
    let mut attempts = FuturesUnordered::new();
    loop {
        let next = waiting.next();
        if let Some(address) = next {
            started.push(address);
            let attempt = attempt(address);
            attempts.push(async move { (address, attempt.await) });
        }
        let head_start = async {
            match next {
                Some(_) if waiting.len() > 0 => tokio::time::sleep(HEAD_START).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            finished = attempts.next() => match finished {
                Some((address, Ok(value))) => {
                    let failed = |other: &A| failures.iter().any(|(failed, _)| failed == other);
                    // Nothing is known yet of those that were started later and have not failed.
                    let winner = started.iter().position(|&other| other == address).unwrap_or(0);
                    let passed_over = started.iter().enumerate();
                    let passed_over = passed_over
                        .filter(|(at, other)| *at < winner || failed(other))
                        .map(|(_, other)| *other)
                        .collect();
                    return Ok(RaceWinner { address, value, passed_over });
                }
                Some((address, Err(error))) => failures.push((address, error)),
                None => return Err(failures),
            },
            () = head_start => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use tokio::time::Instant;

    /// The behaviour of an address: it accepts or refuses after some time, or never responds.
    #[derive(Debug, Clone, Copy)]
    enum Scripted {
        Answer(u64),
        Refuse(u64),
        Nothing,
    }
    use Scripted::{Answer, Nothing, Refuse};

    fn address(n: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, u8::try_from(n).unwrap()], 80))
    }

    /// The winner, the addresses that it passed, the duration of the race, and the start of each
    /// attempt, in milliseconds.
    struct Outcome {
        result: Result<(usize, Vec<usize>), Vec<usize>>,
        after: u128,
        tried: Vec<(usize, u128)>,
    }

    fn outcome(script: &[Scripted]) -> Outcome {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let start = Instant::now();
            let tried = Mutex::new(Vec::new());
            let addresses: Vec<SocketAddr> = (0..script.len()).map(address).collect();
            let index = |of: SocketAddr| addresses.iter().position(|a| *a == of).unwrap();
            let raced = connect_first(&addresses, |at| {
                tried.lock().unwrap().push((index(at), start.elapsed().as_millis()));
                let does = script[index(at)];
                async move {
                    let pause = async |ms, result| {
                        tokio::time::sleep(Duration::from_millis(ms)).await;
                        result
                    };
                    match does {
                        Answer(ms) => pause(ms, Ok(())).await,
                        Refuse(ms) => pause(ms, Err(())).await,
                        Nothing => std::future::pending().await,
                    }
                }
            });
            // The caller's timeout, without which silent addresses would be awaited forever.
            let raced = tokio::time::timeout(Duration::from_secs(3600), raced).await;
            let result = match raced.unwrap_or(Err(Vec::new())) {
                Ok(won) => {
                    Ok((index(won.address), won.passed_over.into_iter().map(index).collect()))
                }
                Err(failures) => Err(failures.into_iter().map(|(at, ())| index(at)).collect()),
            };
            let after = start.elapsed().as_millis();
            Outcome { result, after, tried: tried.into_inner().unwrap() }
        })
    }

    #[test]
    fn a_fast_first_address_is_the_only_one_tried() {
        let outcome = outcome(&[Answer(240), Answer(1)]);
        assert_eq!(outcome.result, Ok((0, vec![])));
        assert_eq!((outcome.after, outcome.tried), (240, vec![(0, 0)]));
    }

    #[test]
    fn a_dead_address_costs_its_head_start() {
        let outcome = outcome(&[Nothing, Answer(40)]);
        assert_eq!(outcome.result, Ok((1, vec![0])));
        assert_eq!((outcome.after, outcome.tried), (290, vec![(0, 0), (1, 250)]));
    }

    #[test]
    fn a_refusal_starts_the_next_at_once() {
        let outcome = outcome(&[Refuse(3), Refuse(3), Answer(5)]);
        assert_eq!(outcome.result, Ok((2, vec![0, 1])));
        assert_eq!(outcome.tried, [(0, 0), (1, 3), (2, 6)]);
    }

    #[test]
    fn a_slow_first_address_may_still_win_and_no_other_counts_as_failed() {
        let outcome = outcome(&[Answer(300), Answer(100), Answer(1)]);
        assert_eq!(outcome.result, Ok((0, vec![])));
        assert_eq!(outcome.after, 300);
    }

    #[test]
    fn all_failures_are_returned_in_order() {
        assert_eq!(outcome(&[Refuse(300), Refuse(1)]).result, Err(vec![1, 0]));
        assert_eq!(outcome(&[]).result, Err(vec![]));
    }

    fn does() -> impl Strategy<Value = Scripted> {
        prop_oneof![(0_u64..2000).prop_map(Answer), (0_u64..2000).prop_map(Refuse), Just(Nothing)]
    }

    proptest! {
        /// An address that responds is found, no later than its own time after all head starts
        /// before it.
        #[test]
        fn an_address_that_answers_is_found(script in prop::collection::vec(does(), 0..6)) {
            let outcome = outcome(&script);
            let bound = script.iter().enumerate().filter_map(|(at, does)| match does {
                Answer(ms) => Some(at as u128 * HEAD_START.as_millis() + u128::from(*ms)),
                _ => None,
            });
            match bound.min() {
                Some(bound) => {
                    let (winner, passed_over) = outcome.result.unwrap();
                    prop_assert!(outcome.after <= bound, "{} ms, expected {bound} at most", outcome.after);
                    prop_assert!(!passed_over.contains(&winner));
                }
                None => prop_assert!(outcome.result.is_err()),
            }
            let mut once: Vec<usize> = outcome.tried.iter().map(|(at, _)| *at).collect();
            once.dedup();
            prop_assert_eq!(once.len(), outcome.tried.len());
        }
    }
}

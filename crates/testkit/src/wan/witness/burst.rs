//! Bursts, and the longest chain of them that could depend on each other.

/// What a client sent on one connection without receiving on any in between, and the answer. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// When its first payload entered the link.
    pub sent: u64,
    /// When the first payload of the answer was delivered to the client.
    pub first_answer: Option<u64>,
    /// When the last payload of the answer was delivered to the client.
    pub last_answer: Option<u64>,
    /// Where the answer begins in the server's stream, in bytes since the witness first saw it.
    pub(super) answer_from: Option<u64>,
}

/// The longest chain of bursts of which each was sent after an answer to the one before, as `answered` dates it.
///
/// The bursts may be of any number of connections and in any order.
#[must_use]
pub fn flights(bursts: &[Burst], answered: impl Fn(&Burst) -> Option<u64>) -> u32 {
    let mut sent: Vec<(u64, usize)> =
        bursts.iter().enumerate().map(|(at, burst)| (burst.sent, at)).collect();
    sent.sort_unstable();
    // (delivered, index), in time order; an answer is always later than its burst, so when a burst's turn comes, the
    // flights of all answers delivered before it are known.
    let mut answers: Vec<(u64, usize)> = bursts
        .iter()
        .enumerate()
        .filter_map(|(at, burst)| answered(burst).map(|time| (time, at)))
        .collect();
    answers.sort_unstable();
    let mut answers = answers.into_iter().peekable();
    let mut flight = vec![0_u32; bursts.len()];
    let mut arrived = 0;
    for (sent, at) in sent {
        while let Some((_, answer)) = answers.next_if(|(time, _)| *time < sent) {
            arrived = arrived.max(flight.get(answer).copied().unwrap_or_default());
        }
        if let Some(flight) = flight.get_mut(at) {
            *flight = arrived + 1;
        }
    }
    flight.into_iter().max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn burst(sent: u64, first: u64, last: u64) -> Burst {
        Burst { sent, first_answer: Some(first), last_answer: Some(last), answer_from: None }
    }

    fn both(bursts: &[Burst]) -> (u32, u32) {
        (flights(bursts, |it| it.first_answer), flights(bursts, |it| it.last_answer))
    }

    #[test]
    fn parallel_requests_are_one_flight() {
        let bursts: Vec<Burst> = (0..64).map(|i| burst(i, 100 + i, 200 + i)).collect();
        assert_eq!(both(&bursts), (1, 1));
    }

    #[test]
    fn requests_after_answers_are_a_flight_each() {
        let bursts: Vec<Burst> = (0..5).map(|i| burst(i * 10, i * 10 + 5, i * 10 + 6)).collect();
        assert_eq!(both(&bursts), (5, 5));
    }

    #[test]
    fn late_request_depends_on_a_begun_answer_only_strictly() {
        assert_eq!(both(&[burst(0, 10, 100), burst(20, 30, 120)]), (2, 1));
    }

    #[test]
    fn nothing_sent_is_no_flight() {
        assert_eq!(both(&[]), (0, 0));
    }

    proptest! {
        #[test]
        fn flights_agree_with_the_definition(
            raw in prop::collection::vec((0_u64..100, 1_u64..30, 0_u64..30), 0..40),
        ) {
            let bursts: Vec<Burst> =
                raw.iter().map(|(s, f, l)| burst(*s, s + f, s + f + l)).collect();
            // By definition, burst by burst in the order of sending.
            let mut order: Vec<usize> = (0..bursts.len()).collect();
            order.sort_by_key(|at| bursts[*at].sent);
            let mut flight = vec![0; bursts.len()];
            for at in order {
                let before = (0..bursts.len())
                    .filter(|b| bursts[*b].first_answer.unwrap() < bursts[at].sent)
                    .map(|b| flight[b])
                    .max();
                flight[at] = before.unwrap_or(0) + 1;
            }
            let (strict, whole) = both(&bursts);
            prop_assert_eq!(strict, flight.into_iter().max().unwrap_or(0));
            prop_assert!(whole <= strict);
        }
    }
}

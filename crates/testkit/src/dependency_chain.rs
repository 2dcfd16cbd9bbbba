//! The longest chain of requests that could depend on each other.

/// Takes when each request was sent and when its answer was there, in any order, and gives the length of the longest chain of
/// requests of which each was sent after the answer to the one before was there.
///
/// Times may be in any unit. An answer must be later than its request; one at the very instant at which another request
/// is sent was not there before it.
pub(crate) fn longest_chain(requests: impl Iterator<Item = (u64, Option<u64>)>) -> u32 {
    each(requests).into_iter().max().unwrap_or_default()
}

/// The length of the chain that ends with each request, in the order in which they are given.
pub(crate) fn each(requests: impl Iterator<Item = (u64, Option<u64>)>) -> Vec<u32> {
    let requests: Vec<(u64, Option<u64>)> = requests.collect();
    let mut sent: Vec<(u64, usize)> =
        requests.iter().enumerate().map(|(at, (sent, _))| (*sent, at)).collect();
    sent.sort_unstable();
    // In time order, an answer's own request has had its turn before, so its flight is known when it is looked up.
    let mut answers: Vec<(u64, usize)> = requests
        .iter()
        .enumerate()
        .filter_map(|(at, (_, answered))| answered.map(|time| (time, at)))
        .collect();
    answers.sort_unstable();
    let mut answers = answers.into_iter().peekable();
    let mut flight = vec![0_u32; requests.len()];
    let mut arrived = 0;
    for (sent, at) in sent {
        while let Some((_, answer)) = answers.next_if(|(time, _)| *time < sent) {
            arrived = arrived.max(flight.get(answer).copied().unwrap_or_default());
        }
        if let Some(flight) = flight.get_mut(at) {
            *flight = arrived + 1;
        }
    }
    flight
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy)]
    struct Burst {
        sent: u64,
        first: u64,
        last: u64,
    }

    fn burst(sent: u64, first: u64, last: u64) -> Burst {
        Burst { sent, first, last }
    }

    fn both(bursts: &[Burst]) -> (u32, u32) {
        let first = bursts.iter().map(|burst| (burst.sent, Some(burst.first)));
        let last = bursts.iter().map(|burst| (burst.sent, Some(burst.last)));
        (longest_chain(first), longest_chain(last))
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

    #[test]
    fn request_without_answer_counts_but_nothing_depends_on_it() {
        assert_eq!(longest_chain([(0, None), (10, None)].into_iter()), 1);
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
                    .filter(|b| bursts[*b].first < bursts[at].sent)
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

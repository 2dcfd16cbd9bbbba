//! Round trips that a client had to wait for, from the times of its requests.
//!
//! A request *could* depend on every response that was complete before it was sent. The longest
//! chain of such requests is the number of round trips: any number of parallel requests counts
//! once.

/// Returns the length of the longest chain of requests of which each was sent after the response to
/// the one before.
///
/// Takes the time of sending and of the response of each request, in any order and in any unit. A
/// response at the same instant as a request does not precede it. No request depends on one without
/// a response.
#[must_use]
pub fn longest_chain(requests: impl Iterator<Item = (u64, Option<u64>)>) -> u32 {
    chain_lengths(requests).into_iter().max().unwrap_or_default()
}

/// Returns the length of the chain that ends with each request, in the order of `requests`.
#[must_use]
pub fn chain_lengths(requests: impl Iterator<Item = (u64, Option<u64>)>) -> Vec<u32> {
    let requests: Vec<(u64, Option<u64>)> = requests.collect();
    let mut sent: Vec<(u64, usize)> =
        requests.iter().enumerate().map(|(at, (sent, _))| (*sent, at)).collect();
    sent.sort_unstable();
    // In time order a response comes after its own request, so the chain of that request is known
    // when the response is looked up.
    let mut responses: Vec<(u64, usize)> = requests
        .iter()
        .enumerate()
        .filter_map(|(at, (_, responded))| responded.map(|time| (time, at)))
        .collect();
    responses.sort_unstable();
    let mut responses = responses.into_iter().peekable();
    let mut lengths = vec![0_u32; requests.len()];
    let mut arrived = 0;
    for (sent, at) in sent {
        while let Some((_, response)) = responses.next_if(|(time, _)| *time < sent) {
            arrived = arrived.max(lengths.get(response).copied().unwrap_or_default());
        }
        if let Some(length) = lengths.get_mut(at) {
            *length = arrived + 1;
        }
    }
    lengths
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
    fn parallel_requests_are_one_round_trip() {
        let bursts: Vec<Burst> = (0..64).map(|i| burst(i, 100 + i, 200 + i)).collect();
        assert_eq!(both(&bursts), (1, 1));
    }

    #[test]
    fn requests_after_responses_are_a_round_trip_each() {
        let bursts: Vec<Burst> = (0..5).map(|i| burst(i * 10, i * 10 + 5, i * 10 + 6)).collect();
        assert_eq!(both(&bursts), (5, 5));
    }

    #[test]
    fn late_request_depends_on_a_begun_response_only_strictly() {
        assert_eq!(both(&[burst(0, 10, 100), burst(20, 30, 120)]), (2, 1));
    }

    #[test]
    fn nothing_sent_is_no_round_trip() {
        assert_eq!(both(&[]), (0, 0));
    }

    #[test]
    fn request_without_response_counts_but_nothing_depends_on_it() {
        assert_eq!(longest_chain([(0, None), (10, None)].into_iter()), 1);
    }

    proptest! {
        #[test]
        fn chains_agree_with_the_definition(
            raw in prop::collection::vec((0_u64..100, 1_u64..30, 0_u64..30), 0..40),
        ) {
            let bursts: Vec<Burst> =
                raw.iter().map(|(s, f, l)| burst(*s, s + f, s + f + l)).collect();
            // By definition, burst by burst in the order of sending.
            let mut order: Vec<usize> = (0..bursts.len()).collect();
            order.sort_by_key(|at| bursts[*at].sent);
            let mut chains = vec![0; bursts.len()];
            for at in order {
                let before = (0..bursts.len())
                    .filter(|b| bursts[*b].first < bursts[at].sent)
                    .map(|b| chains[b])
                    .max();
                chains[at] = before.unwrap_or(0) + 1;
            }
            let (strict, whole) = both(&bursts);
            prop_assert_eq!(strict, chains.into_iter().max().unwrap_or(0));
            prop_assert!(whole <= strict);
        }
    }
}

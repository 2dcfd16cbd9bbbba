//! Faults at random: what comes is exact, or an error says why, and it ends.

use crate::rig::{SIZE, check, config, content, drain};
use hither_core::{Delivery, Error, ErrorKind, Failure, Limits};
use hither_netem::Link;
use hither_read::Reader;
use hither_simulate::source::{Fault, SimulatedSource};
use proptest::prelude::*;

fn fault() -> impl Strategy<Value = Fault> {
    let kinds = [
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::TooLarge,
        ErrorKind::NotFound,
        ErrorKind::Protocol,
    ];
    let fail = (prop::sample::select(kinds.to_vec()), any::<bool>()).prop_map(|(kind, again)| {
        let error = Error::new(kind, "by chance");
        let sent = Failure::Interrupted(Delivery::Sent);
        Fault::Fail(if again { error.with_failure(sent) } else { error })
    });
    prop_oneof![
        1 => fail,
        4 => (0_u64..60_000).prop_map(|after| Fault::Cut { after }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn bytes_are_exact_or_an_error_states_why(
        ranges in prop::collection::vec((0..SIZE as u64, 0_u64..60_000), 0..40),
        tail in prop::option::of(1_u64..20_000),
        faults in prop::collection::btree_map(0_usize..40, fault(), 0..12),
        connections in 1_usize..20,
        max_ranges in 1_usize..30,
        budget in prop::sample::select(vec![1_u64, 10_000, 1 << 20, 64 << 20]),
    ) {
        let size = SIZE as u64;
        let ranges: Vec<_> = ranges.into_iter().map(|(at, n)| at..(at + n).min(size)).collect();
        let faulty = !faults.is_empty();
        let limits = Limits { max_ranges, ..Limits::unlimited() };
        let mut source = SimulatedSource::new(content(), Link::E)
            .with_limits(limits)
            .with_max_connections(connections);
        for (nth, fault) in faults {
            source = source.with_fault(nth, fault);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (pieces, result) = runtime.block_on(async {
            let mut reader = Reader::new(&source, None, config(budget, 4));
            if let Some(tail) = tail {
                reader.push_tail(&[], tail);
            }
            reader.push(&ranges, usize::MAX);
            drain(&mut reader).await
        });
        match result {
            Ok(()) => {
                let wanted: Vec<_> =
                    ranges.into_iter().chain(tail.map(|tail| size - tail..size)).collect();
                check(&pieces, &wanted).map_err(TestCaseError::fail)?;
            }
            Err(error) => prop_assert!(faulty, "{error:?} without a fault"),
        }
        check(&pieces, &[]).map_err(TestCaseError::fail)?;
    }
}

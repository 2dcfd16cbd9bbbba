//! Values end when their time is over, by the clock that is handed in.

use crate::values::{at, key, metadata, store};
use hither_core::Endpoint;
use hither_store::StoreConfig;
use std::time::{Duration, UNIX_EPOCH};

fn config() -> StoreConfig {
    StoreConfig {
        endpoint_ttl: Duration::from_secs(1_000),
        metadata_ttl: Duration::from_secs(500),
        ..StoreConfig::default()
    }
}

#[test]
fn reading_metadata_does_not_extend_its_lifetime() {
    let (_folder, store) = store(config());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    for seconds in [0, 200, 400, 499] {
        assert!(store.metadata(&key("a"), at(seconds)).is_some(), "{seconds} s");
    }
    assert_eq!(store.metadata(&key("a"), at(500)), None);
    store.put_metadata(&key("a"), &metadata(2, &[10]), at(600));
    assert_eq!(store.metadata(&key("a"), at(601)).unwrap().learned, at(600));
}

#[test]
fn writing_an_endpoint_renews_it_but_its_best_values_expire() {
    let (_folder, store) = store(config());
    let mut near = Endpoint::default();
    near.rtt_micros = 300;
    let mut far = Endpoint::default();
    far.rtt_micros = 240_000;
    store.put_endpoint("h", &near, at(0));
    store.put_endpoint("h", &far, at(900));
    assert_eq!(store.endpoint("h", at(1_800)).unwrap().rtt_micros, 300);
    store.put_endpoint("h", &far, at(1_800));
    assert_eq!(store.endpoint("h", at(1_801)).unwrap().rtt_micros, 240_000);
    assert_eq!(store.endpoint("h", at(2_800)), None);
}

#[test]
fn tuned_settings_are_forgotten_after_a_week() {
    let (_folder, store) = store(config());
    store.put_tuning("connections https://a/ local large", 12, at(0));
    store.put_tuning("b", 0, at(0));
    let week = 7 * 24 * 3600;
    assert_eq!(store.tuning("connections https://a/ local large", at(week - 1)), Some(12));
    assert_eq!(store.tuning("connections https://a/ local large", at(week)), None);
    assert_eq!((store.tuning("b", at(1)), store.tuning("c", at(1))), (None, None));
}

#[test]
fn records_from_up_to_an_hour_in_the_future_are_read() {
    let (_folder, store) = store(config());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(3_600));
    assert!(store.metadata(&key("a"), at(0)).is_some());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(3_601));
    assert_eq!(store.metadata(&key("a"), at(0)), None);
}

#[test]
fn a_lifetime_of_zero_stores_nothing() {
    let nothing = StoreConfig { metadata_ttl: Duration::ZERO, ..config() };
    let (_folder, store) = store(nothing);
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(10));
    assert_eq!(store.metadata(&key("a"), at(10)), None);
    assert_eq!(store.metadata(&key("a"), at(9)), None);
}

#[test]
fn times_before_1970_count_as_1970() {
    let (_folder, store) = store(config());
    let before = UNIX_EPOCH - Duration::from_secs(5);
    store.put_metadata(&key("a"), &metadata(1, &[10]), before);
    assert_eq!(store.metadata(&key("a"), before).unwrap().learned, UNIX_EPOCH);
}

//! Walks through directories whose listings end when the test says so.

use hither_core::ErrorKind;
use hither_core::storage::{DirectoryWalk, MAX_LEVELS, MAX_LISTINGS, check_level};
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

/// Listings that have begun and have not ended.
#[derive(Debug, Default)]
struct Listings(Mutex<Vec<usize>>);

impl Listings {
    /// Lists a directory, until [`Listings::end`].
    async fn list(&self, directory: usize) -> usize {
        self.0.lock().unwrap().push(directory);
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            let is_ended = !self.0.lock().unwrap().contains(&directory);
            if is_ended { Poll::Ready(directory) } else { Poll::Pending }
        })
        .await
    }

    fn end(&self, directory: usize) {
        self.0.lock().unwrap().retain(|listed| *listed != directory);
    }
}

/// The result of a future, if it is there once all listings that may begin have begun.
fn now<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..100).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    })
}

#[test]
fn a_bounded_number_of_directories_is_listed_at_the_same_time() {
    let listings = Listings::default();
    let mut walk = DirectoryWalk::new((0..100).collect(), |number| listings.list(number));
    assert_eq!(now(walk.next()), None);
    let first: Vec<usize> = listings.0.lock().unwrap().clone();
    assert_eq!(first.len(), MAX_LISTINGS);
    listings.end(first[3]);
    assert_eq!(now(walk.next()), Some(Some(first[3])));
    // A listing that was taken makes room for one more, and only when the next one is asked for.
    assert_eq!(listings.0.lock().unwrap().len(), MAX_LISTINGS - 1);
    assert_eq!(now(walk.next()), None);
    assert_eq!(listings.0.lock().unwrap().len(), MAX_LISTINGS);
}

#[test]
fn directories_that_a_listing_contains_are_listed_beside_the_others() {
    let listings = Listings::default();
    let mut walk = DirectoryWalk::new(vec![0, 1], |number| listings.list(number));
    assert_eq!(now(walk.next()), None);
    listings.end(1);
    assert_eq!(now(walk.next()), Some(Some(1)));
    walk.add([10, 11]);
    assert_eq!(now(walk.next()), None);
    let mut listed = listings.0.lock().unwrap().clone();
    listed.sort_unstable();
    assert_eq!(listed, [0, 10, 11]);
    for directory in listed {
        listings.end(directory);
        assert_eq!(now(walk.next()), Some(Some(directory)));
    }
    assert_eq!(now(walk.next()), Some(None));
}

#[test]
fn directories_beyond_the_deepest_level_are_refused() {
    assert!(check_level(MAX_LEVELS).is_ok());
    assert_eq!(check_level(MAX_LEVELS + 1).unwrap_err().kind(), ErrorKind::TooLarge);
}

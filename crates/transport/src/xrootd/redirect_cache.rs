//! The redirects of a manager, remembered by directory.
//!
//! A manager has no files itself, but redirects to a data server that has them. This takes one more
//! round trip for each file, and files of one directory are usually on one data server. So a
//! redirect is remembered for the directory of its file, and the next file of that directory is
//! requested from the same data server: if it is there, the manager gets no request.
//!
//! If the file is elsewhere, `xrootd/source.rs` sends the request to the manager. Where the files
//! of a directory are on many servers, most cached redirects fail and cost the round trips that
//! they should save: after [`MAX_MISSES`] misses in a row they are not used, until the manager has
//! redirected to the same server again as often.
//!
//! Only a redirect that consists of an address is remembered. Other content, such as an
//! authorisation for the file or words for the login, is for this client, this file, and this
//! moment only.

use crate::location::Location;
use hither_core::endpoint::{LearnedRedirect, MAX_DIRECTIONS};
use hither_xrd::wire::{Redirect, RedirectTarget};

/// The maximum number of failed guesses in a row.
const MAX_MISSES: u8 = 2;

/// The redirects of one manager, the last used first.
#[derive(Debug, Clone, Default)]
pub(super) struct RedirectCache(Vec<LearnedRedirect>);

/// The directory of a file with an absolute path.
fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

impl RedirectCache {
    /// The redirects that an earlier process learned.
    pub(super) fn remembered(redirects: Vec<LearnedRedirect>) -> Self {
        Self(redirects)
    }

    /// The redirects to remember.
    pub(super) fn all(&self) -> &[LearnedRedirect] {
        &self.0
    }

    /// The probable host and port of the file at `path`.
    pub(super) fn to(&self, path: &str) -> Option<(&str, u16)> {
        let known = self.0.iter().find(|known| known.directory == directory(path))?;
        (known.misses < MAX_MISSES).then_some((&*known.host, known.port))
    }

    /// Records that the manager redirected to `place` for the file at `path`, and that the file was
    /// there.
    pub(super) fn record(&mut self, path: &str, place: &Location) {
        let mut direction = self.taken(path);
        if direction.host == place.host() && direction.port == place.port() {
            direction.misses = direction.misses.saturating_sub(1);
        }
        place.host().clone_into(&mut direction.host);
        direction.port = place.port();
        self.put(direction);
    }

    /// Records that the file at `path` was where the cached redirect led.
    pub(super) fn record_hit(&mut self, path: &str) {
        let mut direction = self.taken(path);
        direction.misses = 0;
        self.put(direction);
    }

    /// Records that it was elsewhere.
    pub(super) fn record_miss(&mut self, path: &str) {
        let mut direction = self.taken(path);
        direction.misses = direction.misses.saturating_add(1).min(MAX_MISSES);
        self.put(direction);
    }

    /// Removes the redirect of the directory of `path`, and returns it.
    fn taken(&mut self, path: &str) -> LearnedRedirect {
        let directory = directory(path);
        match self.0.iter().position(|known| known.directory == directory) {
            Some(at) => self.0.remove(at),
            None => {
                let mut direction = LearnedRedirect::default();
                directory.clone_into(&mut direction.directory);
                direction
            }
        }
    }

    fn put(&mut self, direction: LearnedRedirect) {
        if direction.is_plausible() {
            self.0.insert(0, direction);
            self.0.truncate(MAX_DIRECTIONS);
        }
    }
}

/// Returns whether a redirect consists of an address only, so that it holds for other files.
pub(super) fn is_plain(redirect: &Redirect) -> bool {
    let silent = redirect.opaque.is_none() && redirect.login.is_none();
    silent && matches!(redirect.target, RedirectTarget::Server { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16) -> Location {
        Location::parse(&format!("root://data.example:{port}//a/f")).unwrap()
    }

    #[test]
    fn a_directory_is_expected_on_the_server_of_its_last_file() {
        let mut redirects = RedirectCache::default();
        assert_eq!(redirects.to("/a/f"), None);
        redirects.record("/a/f", &server(1));
        assert_eq!(redirects.to("/a/g"), Some(("data.example", 1)));
        assert_eq!((redirects.to("/a/b/g"), redirects.to("/b/g")), (None, None));
        redirects.record("/a/g", &server(2));
        assert_eq!(redirects.to("/a/f"), Some(("data.example", 2)));
    }

    #[test]
    fn wrong_predictions_stop_until_files_share_a_server_again() {
        let mut redirects = RedirectCache::default();
        redirects.record("/a/f", &server(1));
        for (nth, other) in [(1, 2), (2, 1)] {
            assert!(redirects.to("/a/f").is_some(), "guess {nth}");
            redirects.record_miss("/a/f");
            redirects.record("/a/f", &server(other));
        }
        assert_eq!(redirects.to("/a/f"), None);
        redirects.record("/a/g", &server(2));
        assert_eq!(redirects.to("/a/f"), None);
        redirects.record("/a/g", &server(2));
        assert_eq!(redirects.to("/a/f"), Some(("data.example", 2)));
        redirects.record_hit("/a/f");
        redirects.record_miss("/a/f");
        assert!(redirects.to("/a/f").is_some());
    }

    #[test]
    fn the_least_recently_used_directory_is_evicted() {
        let mut redirects = RedirectCache::default();
        for nth in 0..=MAX_DIRECTIONS {
            redirects.record(&format!("/{nth}/f"), &server(1));
        }
        assert_eq!(redirects.to("/0/f"), None);
        assert_eq!((redirects.to("/1/f").is_some(), redirects.all().len()), (true, 64));
        redirects.record(&format!("/{}/f", "x".repeat(2000)), &server(1));
        redirects.record_miss("/never/heard/of");
        assert_eq!(redirects.all().len(), MAX_DIRECTIONS);
    }

    #[test]
    fn redirects_of_a_single_file_are_not_cached() {
        let mut redirect = Redirect::to("data", 1094);
        assert!(is_plain(&redirect));
        redirect.opaque = Some("cap.sym=secret".to_owned());
        assert!(!is_plain(&redirect));
        let whole = RedirectTarget::Url("root://data//f".to_owned());
        assert!(!is_plain(&Redirect { target: whole, opaque: None, ..redirect }));
    }
}

//! A walk through directories, of which several are listed at the same time.
//!
//! On a long path a tree that is listed directory by directory costs a round trip for each. The
//! caller takes one listing at a time and adds the directories that it found; while it is busy,
//! listings that are under way wait. So memory holds [`MAX_LISTINGS`] listings, and the paths of
//! their siblings on the way down.

use crate::{Error, ErrorKind, Result};
use futures_util::stream::{FuturesUnordered, StreamExt};

/// Directories that are listed at the same time.
pub const MAX_LISTINGS: usize = 16;
/// The depth of the deepest directory that is listed: deeper ones are taken for a loop.
pub const MAX_LEVELS: usize = 256;

/// Directories that are listed by `list`, the last one added first.
#[derive(Debug)]
pub struct DirectoryWalk<D, L, F> {
    waiting: Vec<D>,
    list: L,
    listing: FuturesUnordered<F>,
}

impl<D, L: FnMut(D) -> F, F: Future> DirectoryWalk<D, L, F> {
    /// Begins with these directories.
    #[must_use]
    pub fn new(directories: Vec<D>, list: L) -> Self {
        Self { waiting: directories, list, listing: FuturesUnordered::new() }
    }

    /// Adds directories that a listing contains.
    pub fn add(&mut self, directories: impl IntoIterator<Item = D>) {
        self.waiting.extend(directories);
    }

    /// The next listing, in no order; none if all directories were listed.
    pub async fn next(&mut self) -> Option<F::Output> {
        while self.listing.len() < MAX_LISTINGS
            && let Some(directory) = self.waiting.pop()
        {
            self.listing.push((self.list)(directory));
        }
        self.listing.next().await
    }
}

/// Fails for a directory that is not listed because it is too deep below the root of a walk.
///
/// # Errors
///
/// [`ErrorKind::TooLarge`].
pub fn check_level(level: usize) -> Result<()> {
    if level <= MAX_LEVELS {
        return Ok(());
    }
    let what = format!("more than {MAX_LEVELS} directories in each other, left out");
    Err(Error::new(ErrorKind::TooLarge, what))
}

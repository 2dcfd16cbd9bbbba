//! The order of a walk.
//!
//! A directory comes before its entries. These are in the byte order of their names: the files
//! first, then the directories, each with everything below it. So a position in a walk is a path,
//! and a reader can check with the memory of one path that no entry is repeated and that every
//! entry is in a directory that was listed before.

/// An entry that does not follow those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tree has {path:?} out of order, twice, or outside of its directories")]
pub struct WalkOrderError {
    /// The path.
    pub path: String,
}

/// Checks the order of a walk.
#[derive(Debug, Default)]
pub struct WalkOrder {
    /// The directories that the last entry is in, from the root.
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    /// The path of the directory.
    path: String,
    /// The last file and the last directory in it.
    file: Option<String>,
    directory: Option<String>,
}

impl Level {
    fn new(path: &str) -> Self {
        Self { path: path.to_owned(), file: None, directory: None }
    }
}

impl WalkOrder {
    /// The order of the entries after a position; see [`TreeQuery::Walk`](super::TreeQuery::Walk).
    #[must_use]
    pub fn after(position: &str) -> Self {
        let mut levels = vec![Level::new("")];
        let mut start = 0;
        while let Some(rest) = position.get(start..).filter(|rest| !rest.is_empty()) {
            let name = rest.split('/').next().unwrap_or_default();
            let end = start + name.len();
            let is_directory = end < position.len();
            if let Some(level) = levels.last_mut() {
                let last = if is_directory { &mut level.directory } else { &mut level.file };
                *last = Some(name.to_owned());
            }
            if is_directory {
                levels.push(Level::new(position.get(..end).unwrap_or_default()));
            }
            start = end + 1;
        }
        Self { levels }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// It does not follow those before it.
    pub fn add(&mut self, path: &str, is_directory: bool) -> Result<(), WalkOrderError> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        while self.levels.last().is_some_and(|level| level.path != parent) {
            self.levels.pop();
        }
        let error = || WalkOrderError { path: path.to_owned() };
        let level = self.levels.last_mut().ok_or_else(error)?;
        if !is_directory && level.directory.is_some() {
            return Err(error());
        }
        let last = if is_directory { &mut level.directory } else { &mut level.file };
        if last.as_deref().is_some_and(|last| last >= name) {
            return Err(error());
        }
        *last = Some(name.to_owned());
        if is_directory {
            self.levels.push(Level::new(path));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALK: [(&str, bool); 8] = [
        ("b", false),
        ("z", false),
        ("a", true),
        ("a/y", false),
        ("a/b", true),
        ("a/b/c", false),
        ("c", true),
        ("c/a", false),
    ];

    #[test]
    fn a_walk_continues_after_any_of_its_entries() {
        for at in 0..WALK.len() {
            let (path, is_directory) = WALK[at];
            let position = format!("{path}{}", if is_directory { "/" } else { "" });
            let mut order = WalkOrder::after(&position);
            for (path, is_directory) in &WALK[at + 1..] {
                order.add(path, *is_directory).unwrap();
            }
            for (path, is_directory) in &WALK[..=at] {
                // A directory's own name may come again only before anything in it did.
                assert!(WalkOrder::after(&position).add(path, *is_directory).is_err(), "{path}");
            }
        }
    }

    #[test]
    fn what_is_twice_or_out_of_order_or_elsewhere_is_refused() {
        for wrong in [("z", false), ("a", true), ("b", false), ("c/a", false), ("d/e", false)] {
            let mut order = WalkOrder::after("");
            WALK.iter().for_each(|(path, is_directory)| order.add(path, *is_directory).unwrap());
            assert!(order.add(wrong.0, wrong.1).is_err(), "{wrong:?}");
        }
    }
}

//! Lists of the objects of a bucket.

use super::{S3Storage, directory, entry};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, Listing, check_path};
use hither_http::object_list::{ListedObject, ObjectList};
use object_store::ObjectMeta;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// The maximum number of names in one list, which take a quarter of a kilobyte each.
const MAX_NAMES: usize = 4_000_000;
/// The maximum number of pages in a row without a new name. Stores may send a few empty ones.
const MAX_PAGES_OF_NOTHING: usize = 100;

/// The beginning of the keys below `path`.
fn prefix(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}/") }
}

/// The first name of a page that is not grouped by the delimiter: a key that continues after it, or
/// a common prefix that does not end with the first one. A store, or a cache in front of it, that
/// ignores the delimiter lists a whole tree.
fn ungrouped<'a>(page: &'a ObjectList, prefix: &str, delimiter: &str) -> Option<&'a String> {
    let behind =
        |key: &'a String| Some(key.strip_prefix(prefix)?.split_once(delimiter)?.1.is_empty());
    let mut keys = page.objects.iter().map(|object| &object.key);
    let goes_on = keys.find(|key| behind(key) == Some(false));
    goes_on.or_else(|| page.prefixes.iter().find(|group| behind(group) != Some(true)))
}

impl S3Storage {
    fn strange_list(&self, path: &str, what: &str) -> Error {
        Error::new(ErrorKind::Protocol, format!("{}: {what}", self.shown(path)))
    }

    /// The pages of a list of the objects below `path`, up to the `delimiter` in their names. The
    /// last page is the one that is marked as the last, or the first one with which the pages are
    /// enough.
    pub(super) async fn pages(
        &self,
        path: &str,
        delimiter: Option<&'static str>,
        is_enough: impl Fn(&ObjectList) -> bool + Send,
    ) -> Result<ObjectList> {
        self.key(path)?;
        let prefix = prefix(path);
        let prefix_filter = (!prefix.is_empty()).then_some(&*prefix);
        let mut all = ObjectList::default();
        let mut tokens = HashSet::new();
        let hasher = RandomState::new();
        let mut seen = HashSet::new();
        let mut pages_of_nothing = 0;
        loop {
            let page_token = all.next.take();
            let options = PaginatedListOptions {
                delimiter: delimiter.map(Into::into),
                page_token,
                ..Default::default()
            };
            let answer = self.store.list_paginated(prefix_filter, options).await;
            let mut answer = answer.map_err(|error| self.failed(path, error))?;
            let page = answer.result.extensions.remove::<ObjectList>();
            let page = page.ok_or_else(|| self.strange_list(path, "the answer is not a list"))?;
            let mut keys = page.objects.iter().map(|object| &object.key).chain(&page.prefixes);
            if let Some(other) = keys.find(|key| !key.starts_with(&prefix)) {
                let what = format!("the object store lists {other:?}, which is not below it");
                return Err(self.strange_list(path, &what));
            }
            if let Some(other) = delimiter.and_then(|it| ungrouped(&page, &prefix, it)) {
                let what = format!(
                    "the object store does not obey the delimiter of the list: it lists {other:?}"
                );
                return Err(self.strange_list(path, &what));
            }
            let keys = page.objects.iter().map(|object| &object.key).chain(&page.prefixes);
            let known = seen.len();
            seen.extend(keys.map(|key| hasher.hash_one(key)));
            pages_of_nothing = if seen.len() > known { 0 } else { pages_of_nothing + 1 };
            all.prefixes.extend(page.prefixes);
            all.objects.extend(page.objects);
            let names = all.prefixes.len() + all.objects.len();
            if names > MAX_NAMES || pages_of_nothing > MAX_PAGES_OF_NOTHING {
                let what = format!(
                    "the list of the object store does not end: {names} names, nothing new on the \
                     last {pages_of_nothing} pages"
                );
                return Err(self.strange_list(path, &what));
            }
            let Some(token) = page.next.filter(|_| !is_enough(&all)) else { return Ok(all) };
            if !tokens.insert(token.clone()) {
                let what = "the object store names a page of its list that it has sent before";
                return Err(self.strange_list(path, what));
            }
            all.next = Some(token);
        }
    }

    pub(super) async fn is_directory(&self, path: &str) -> Result<bool> {
        let found = self.pages(path, None, |found| !found.objects.is_empty()).await?;
        Ok(!found.objects.is_empty())
    }

    /// Returns true if a list shows the object at `path`. Its key comes before all that begin with
    /// it, so the first page has it.
    pub(super) async fn is_listed(&self, path: &str) -> Result<bool> {
        self.key(path)?;
        let options = PaginatedListOptions::default();
        let answer = self.store.list_paginated(Some(path), options).await;
        let mut answer = answer.map_err(|error| self.failed(path, error))?;
        let page = answer.result.extensions.remove::<ObjectList>();
        let page = page.ok_or_else(|| self.strange_list(path, "the answer is not a list"))?;
        Ok(page.objects.iter().any(|object| object.key == path))
    }

    pub(super) async fn list_directory(&self, path: &str) -> Result<Listing> {
        let prefix = prefix(path);
        let found = self.pages(path, Some("/"), |_| false).await?;
        let mut listing = Listing::default();
        let mut is_there = path.is_empty();
        let prefixes = found.prefixes.into_iter().map(|key| (key, None));
        let objects = found.objects.into_iter().map(|object| (object.key.clone(), Some(object)));
        for (key, object) in prefixes.chain(objects) {
            // An object that stands for a directory, as some programs create them, is empty.
            let bytes = object.as_ref().map_or(0, |object| object.size);
            if bytes > 0 && key.ends_with('/') {
                let what = format!(
                    "the object {key:?} has {bytes} bytes, and a key that ends with \"/\" is the \
                     name of no file: rename or remove it in the bucket"
                );
                listing
                    .gaps
                    .push(Error::new(ErrorKind::Unsupported, what).context(self.shown(path)));
            }
            if key == prefix {
                is_there = true;
                continue;
            }
            let name = key.strip_suffix('/').unwrap_or(&key);
            match self.listed(name, object.filter(|_| name == key)) {
                Ok(entry) => listing.entries.push(entry),
                Err(error) if !name.is_empty() && check_path(name).is_ok() => {
                    listing.failed.push((name.to_owned(), error));
                }
                Err(error) => listing.gaps.push(error.context(self.shown(path))),
            }
        }
        if !is_there && listing.entries.is_empty() && listing.is_complete() {
            return match self.file(path).await? {
                Some(_) => {
                    let what = format!("{} is not a directory", self.shown(path));
                    Err(Error::new(ErrorKind::Invalid, what))
                }
                None => Err(self.missing(path)),
            };
        }
        listing.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// The entry for a name, of an object or of a directory.
    fn listed(&self, name: &str, object: Option<ListedObject>) -> Result<DirEntry> {
        let location = self.named(name)?;
        let Some(object) = object else { return Ok(directory(&location)) };
        let last_modified = object.modified.parse().map_err(|_| {
            let what = format!("the date {:?} of the object is invalid", object.modified);
            self.strange_list(name, &what)
        })?;
        let ListedObject { size, etag: e_tag, .. } = object;
        Ok(entry(ObjectMeta { location, last_modified, size, e_tag, version: None }))
    }
}

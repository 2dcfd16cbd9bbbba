//! Names of one directory that the target takes for one ([`folding`](crate::destination::folding)).

use super::listings::Merged;
use super::{Folder, Found, TreePair, is_included};
use crate::copy::target_directory::create_directory;
use crate::destination::folding::{FoldingCache, SeenNames, clash, coarse};
use crate::filter::Filter;
use hither_core::storage::join;
use hither_core::{DirEntry, ErrorKind, Result};
use std::collections::BTreeMap;

/// The reason why a name that only the target lists is kept.
pub(super) const SPELLED: &str =
    "the destination takes it for a name of the source that is spelled otherwise";

/// The name for which the target takes a name of the source.
enum TakenFor {
    Nothing,
    /// A name that only the target lists. The entry under the name of the source, if the target
    /// states it.
    Listed(Option<DirEntry>),
    /// Another name of the source, by its place.
    Other(usize),
}

impl TreePair {
    /// Settles which names of a directory are one at the target: a name that the target does not
    /// list and yet has is joined with what it has, the spelling that only the target lists stays,
    /// and of two names of the source that would become one the second one fails. Takes out of
    /// `merged` what it returns.
    pub(super) async fn settle_alike(
        &self,
        folder: &Folder,
        filter: &Filter,
        merged: &mut Merged,
    ) -> Vec<(String, Found)> {
        let mut seen = SeenNames::default();
        if !merged.iter().fold(false, |any, (name, ..)| seen.add(name) || any) {
            return Vec::new();
        }
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, (name, source, target)) in merged.iter().enumerate() {
            if is_included(filter, &join(&folder.path, name), source.as_ref(), target.as_ref()) {
                groups.entry(coarse(name)).or_default().push(at);
            }
        }
        let mut settled = BTreeMap::new();
        let mut cache = FoldingCache::default();
        for group in groups.into_values().filter(|group| group.len() > 1) {
            settled.extend(self.settle(folder, &group, merged, &mut cache).await);
        }
        let mut taken = Vec::with_capacity(settled.len());
        for (at, found) in settled.into_iter().rev() {
            let (name, ..) = merged.remove(at);
            taken.push((join(&folder.path, &name), found));
        }
        taken
    }

    /// Settles the names of `merged` at the places of `group`.
    async fn settle(
        &self,
        folder: &Folder,
        group: &[usize],
        merged: &mut Merged,
        cache: &mut FoldingCache,
    ) -> Vec<(usize, Found)> {
        let mut settled = Vec::new();
        let is_listed = |at: &usize| merged[*at].2.is_some();
        let (listed, new): (Vec<usize>, Vec<usize>) = group.iter().partition(|at| is_listed(at));
        // Names of the source that stand for what is, or will be, at the target.
        let (mut kept, only_listed): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|at| merged[*at].1.is_some());
        let mut is_joined = false;
        for at in new {
            match self.taken_for(at, folder, &kept, &only_listed, merged, cache).await {
                Ok(TakenFor::Nothing) => kept.push(at),
                Ok(TakenFor::Listed(entry)) => {
                    is_joined = true;
                    merged[at].2 = entry;
                    kept.push(at);
                }
                Ok(TakenFor::Other(other)) => {
                    let error = clash(&merged[at].0, &merged[other].0, &folder.directory.target);
                    settled.push((at, Found::Conflict(error)));
                }
                Err(error) => settled.push((at, Found::Unknown(error))),
            }
        }
        if is_joined {
            settled.extend(only_listed.into_iter().map(|at| (at, Found::LeftOut(SPELLED))));
        }
        settled
    }

    /// Finds out for which other name the target takes the name of the source at `at`.
    async fn taken_for(
        &self,
        at: usize,
        folder: &Folder,
        kept: &[usize],
        only_listed: &[usize],
        merged: &Merged,
        cache: &mut FoldingCache,
    ) -> Result<TakenFor> {
        let name = &merged[at].0;
        let is_listed = kept.iter().chain(only_listed).any(|at| merged[*at].2.is_some());
        let entry = if is_listed { self.unlisted(name, folder).await? } else { None };
        match (self.alike(name, folder, kept, merged, cache).await?, kept.first()) {
            (Some(other), _) => return Ok(TakenFor::Other(other)),
            // Without a test, it may be that of any of them.
            (None, Some(&other)) if entry.is_some() && !self.may_probe => {
                return Ok(TakenFor::Other(other));
            }
            (None, _) => {}
        }
        let is_taken = entry.is_some()
            || self.alike(name, folder, only_listed, merged, cache).await?.is_some();
        Ok(if is_taken { TakenFor::Listed(entry) } else { TakenFor::Nothing })
    }

    /// The entry of a name that the target does not list.
    async fn unlisted(&self, name: &str, folder: &Folder) -> Result<Option<DirEntry>> {
        let path = join(&folder.path, name);
        match self.target.storage.stat(&self.target.below(&path).0).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            entry => entry.map(Some),
        }
    }

    /// The first of the names at `kept` that the target would take for `name`.
    async fn alike(
        &self,
        name: &str,
        folder: &Folder,
        kept: &[usize],
        merged: &Merged,
        cache: &mut FoldingCache,
    ) -> Result<Option<usize>> {
        if kept.is_empty() || !self.may_probe {
            return Ok(None);
        }
        if !self.has_target {
            create_directory(&self.target.target(), true).await?;
        }
        for &other in kept {
            if cache.is_one(name, &merged[other].0, folder.directory.nearest()).await? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }
}

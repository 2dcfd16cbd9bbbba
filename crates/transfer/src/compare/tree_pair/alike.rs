//! Names of one directory that collide at the target, because they differ only in case or Unicode
//! form.

use super::listings::Merged;
use super::{Folder, Found, TreePair, is_included};
use crate::copy::target_directory::create_directory;
use crate::destination::folding::{DirectoryAnswers, Folding, MetNames, clash};
use crate::filter::Filter;
use hither_core::storage::join;
use hither_core::{ErrorKind, Result};
use std::collections::BTreeMap;

/// The reason why a name that only the target lists is kept.
const SPELLED: &str = "the destination takes it for a name of the source that is spelled otherwise";

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
        let mut met = MetNames::default();
        if !merged.iter().fold(false, |any, (name, ..)| met.add(name) || any) {
            return Vec::new();
        }
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, (name, source, target)) in merged.iter().enumerate() {
            if is_included(filter, &join(&folder.path, name), source.as_ref(), target.as_ref()) {
                groups.entry(Folding::ALL.fold(name)).or_default().push(at);
            }
        }
        let mut settled = BTreeMap::new();
        let mut answers = DirectoryAnswers::default();
        for group in groups.into_values().filter(|group| group.len() > 1) {
            settled.extend(self.settle(folder, &group, merged, &mut answers).await);
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
        answers: &mut DirectoryAnswers,
    ) -> Vec<(usize, Found)> {
        let mut settled = Vec::new();
        let is_listed = group.iter().any(|at| merged[*at].2.is_some());
        // Names of the source that stand for what is, or will be, at the target.
        let both = |at: &&usize| merged[**at].1.is_some() && merged[**at].2.is_some();
        let mut kept: Vec<usize> = group.iter().filter(both).copied().collect();
        let mut is_joined = false;
        for &at in group {
            let (name, Some(_), None) = &merged[at] else { continue };
            let other = if is_listed {
                let path = join(&folder.path, name);
                match self.target.storage.stat(&self.target.below(&path).0).await {
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(error),
                    Ok(_) if !kept.is_empty() => Ok(kept.first()),
                    Ok(entry) => {
                        is_joined = true;
                        merged[at].2 = Some(entry);
                        Ok(None)
                    }
                }
            } else {
                self.alike(name, folder, &kept, merged, answers).await
            };
            match other {
                Ok(None) => kept.push(at),
                Ok(Some(&other)) => {
                    let error = clash(&merged[at].0, &merged[other].0, &folder.directory.target);
                    settled.push((at, Found::Conflict(error)));
                }
                Err(error) => settled.push((at, Found::Unknown(error))),
            }
        }
        if is_joined {
            let only_listed = group.iter().filter(|at| merged[**at].1.is_none());
            settled.extend(only_listed.map(|at| (*at, Found::LeftOut(SPELLED))));
        }
        settled
    }

    /// The first of the names at `kept` that the target would take for `name`.
    async fn alike<'a>(
        &self,
        name: &str,
        folder: &Folder,
        kept: &'a [usize],
        merged: &Merged,
        answers: &mut DirectoryAnswers,
    ) -> Result<Option<&'a usize>> {
        if kept.is_empty() || !self.may_probe {
            return Ok(None);
        }
        if !self.has_target {
            create_directory(&self.target.target()).await?;
        }
        let folding = answers.folding(name, folder.directory.nearest()).await?;
        let folded = folding.fold(name);
        Ok(kept.iter().find(|other| folding.fold(&merged[**other].0) == folded))
    }
}

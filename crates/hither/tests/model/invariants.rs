//! The model: states of both ends that a job may leave.

use crate::ends::{Ends, Files, OF_OTHER_ENDPOINT, Place, is_of_another_client};
use crate::history::{End, History, Verb};
use crate::jobs::{Job, Outcome, removed};
use hither::OverwritePolicy;
use hither_core::storage::is_partial;
use hither_testkit::mock_http::webdav::{
    LOGIN_PAGE, Protocol, ReadFault, StatedSizes, WebDavFault,
};

/// The length of the names of partial files.
const PARTIAL_BYTES: usize = ".hither-0123456789abcdef.part".len();

type Verdict = Result<(), String>;

/// Fails with the reason if a job has broken the model.
pub(crate) fn check(job: &Job<'_>) -> Verdict {
    if let Outcome::Failed(message) = &job.outcome
        && message.contains("panicked")
    {
        return Err("the program panicked".to_owned());
    }
    for path in job.ends.to.made_again().iter().filter(|path| !is_partial(path)) {
        if !job.ends.to.files().get(path).is_some_and(|it| is_of_another_client(it)) {
            return Err(format!("{path}, which another client has made since, was removed"));
        }
    }
    match job.history.verb {
        Verb::Remove | Verb::RemoveTree => check_removal(job),
        Verb::Move | Verb::MoveTree => check_move(job),
        _ => check_transfer(job),
    }
}

/// A transfer by the names of its target, in which two names may be one.
struct Transfer<'a> {
    job: &'a Job<'a>,
    /// The versions of the files at the source, at any moment of the job.
    versions: Vec<(String, Vec<u8>)>,
    after: Files,
}

fn check_transfer(job: &Job<'_>) -> Verdict {
    let is_selected = |path: &str| match job.history.verb {
        Verb::Copy | Verb::Put => path == job.history.files[0].path,
        _ => true,
    };
    let replica = job.replica.clone().into_iter();
    let replaced = job.ends.from.replaced().into_iter();
    let replaced = replaced.chain(job.ends.replica.iter().flat_map(Place::replaced));
    let versions = job.source.clone().into_iter().chain(replica).chain(replaced);
    let mut versions: Vec<_> = versions.filter(|(path, _)| is_selected(path)).collect();
    if job.history.verb == Verb::Copy && is_page_believed(job) {
        versions.push((job.history.files[0].path.clone(), LOGIN_PAGE.as_bytes().to_vec()));
    }
    versions.extend(job.not_compared.clone());
    let transfer = Transfer { job, versions, after: job.ends.to.files() };
    transfer.check_source()?;
    transfer.check_replaced()?;
    transfer.check_made()?;
    if job.outcome.is_good() { transfer.check_success() } else { Ok(()) }
}

/// Returns true if nothing tells the page of a login from the file that was named: the server
/// states no size of that.
fn is_page_believed(job: &Job<'_>) -> bool {
    let is_page = |fault: &WebDavFault| {
        matches!(fault, WebDavFault::Read(ReadFault::Page | ReadFault::Login(_)))
    };
    let states_size = job.history.from.behaviour().sizes == StatedSizes::Always;
    let happened = job.ends.from.happened();
    // A size of 0 is not believed.
    let is_zero =
        happened.iter().any(|(fault, _)| *fault == WebDavFault::Read(ReadFault::ZeroSizes))
            || job.source.get(&job.history.files[0].path).is_none_or(Vec::is_empty);
    (!states_size || is_zero) && happened.iter().any(|(fault, _)| is_page(fault))
}

/// The files at the target whose bytes the source has damaged on their way, of those that the job
/// says it has not compared: the server refused to tell their checksums.
pub(crate) fn damaged(ends: &Ends, not_compared: &[String]) -> Files {
    let is_told = |path: &str| not_compared.iter().any(|it| it.ends_with(&format!("/{path}")));
    let is_damage = |fault: &WebDavFault| {
        matches!(fault, WebDavFault::Read(ReadFault::Damaged | ReadFault::OtherRange))
    };
    let happened = ends.from.happened();
    let is_damaged = |path: &str| happened.iter().any(|(fault, it)| is_damage(fault) && it == path);
    ends.to.files().into_iter().filter(|(path, _)| is_told(path) && is_damaged(path)).collect()
}

impl Transfer<'_> {
    fn history(&self) -> &History {
        self.job.history
    }

    /// The names of the target that may be one have one key.
    fn key(&self, path: &str) -> String {
        let folds = self.history().to.behaviour().ignores_case;
        if folds { path.to_ascii_lowercase() } else { path.to_owned() }
    }

    fn is_version(&self, path: &str, bytes: &[u8]) -> bool {
        let key = self.key(path);
        self.versions.iter().any(|(path, it)| self.key(path) == key && it == bytes)
    }

    fn at_target(&self, path: &str) -> Option<&Vec<u8>> {
        let key = self.key(path);
        self.after.iter().find(|(path, _)| self.key(path) == key).map(|(_, bytes)| bytes)
    }

    /// The server has no MOVE, or is an object store, and takes files under their own names alone:
    /// what it damages then is damaged.
    fn is_put_in_place(&self) -> bool {
        let has_none = |status: u16| matches!(status, 405 | 501);
        let target = &self.job.ends.to;
        let behaviour = self.history().to.behaviour();
        behaviour.protocol == Protocol::S3
            || behaviour.refuses_moves.is_some_and(has_none)
            || target.happened().iter().any(|(fault, _)| match fault {
                WebDavFault::Status(status) => has_none(*status),
                _ => false,
            })
    }

    /// A PUT was not carried out as it should have been.
    fn was_put_wrongly(&self) -> bool {
        let is_change = |fault: &WebDavFault| matches!(fault, WebDavFault::Change(_));
        self.job.ends.to.happened().iter().any(|(fault, _)| is_change(fault))
    }

    /// The source has left a name out each time that it was asked for.
    fn is_omitted_twice(&self, path: &str) -> bool {
        let omitted = self.job.ends.from.omitted();
        omitted.iter().filter(|it| is_in(path, it)).count() > 1
    }

    /// A job reads its source.
    fn check_source(&self) -> Verdict {
        let after = self.job.ends.from.files();
        for (path, bytes) in &self.job.source {
            let is_known = |it: &Vec<u8>| {
                it == bytes
                    || self.job.ends.from.replaced().iter().any(|(p, b)| p == path && b == it)
            };
            if !after.get(path).is_some_and(is_known) {
                return Err(format!("{path} has changed at the source"));
            }
        }
        Ok(())
    }

    /// A file that was there stays, or becomes a whole version of the source.
    fn check_replaced(&self) -> Verdict {
        let keeps = match self.history().existing {
            OverwritePolicy::Keep | OverwritePolicy::Refuse => !self.history().verb.is_sync(),
            OverwritePolicy::Update => self.history().verb == Verb::Put,
            OverwritePolicy::Replace => false,
        };
        let is_damaged = self.is_put_in_place() && !self.job.outcome.is_good();
        for (path, before) in self.job.target.iter().filter(|(path, _)| !is_partial(path)) {
            let is_at_source = self.versions.iter().any(|(it, _)| self.key(it) == self.key(path));
            match self.at_target(path) {
                None if self.history().verb == Verb::SyncDelete
                    && (!is_at_source || self.is_omitted_twice(path)) => {}
                None if is_damaged && self.was_put_wrongly() => {}
                None => return Err(format!("{path} was removed from the target")),
                Some(now) if now == before || is_of_another_client(now) => {}
                Some(_) if is_damaged && !keeps => {}
                Some(now) if keeps => {
                    return Err(format!("{path} may not be replaced, and has {} bytes", now.len()));
                }
                Some(now) if self.is_version(path, now) => {}
                Some(now) => {
                    return Err(format!(
                        "{path} of {} bytes was replaced by {} bytes, which are not a version of the source",
                        before.len(),
                        now.len()
                    ));
                }
            }
        }
        Ok(())
    }

    /// A file that was not there has a name of the source, and is a version of it.
    fn check_made(&self) -> Verdict {
        let is_local = self.history().to == End::Local;
        let is_unfinished = |path: &str| is_partial(path) || is_left(self.job, path);
        for (path, bytes) in self.after.iter().filter(|(path, _)| !is_unfinished(path)) {
            let was_there = self.job.target.keys().any(|it| self.key(it) == self.key(path));
            let must_be_whole = is_local || self.job.outcome.is_good();
            if was_there || is_of_another_client(bytes) || self.is_moved_in_part(path, bytes) {
                continue;
            }
            if !self.versions.iter().any(|(it, _)| self.key(it) == self.key(path)) {
                return Err(format!("{path} is at the target, and was at no source"));
            }
            if must_be_whole && !self.is_version(path, bytes) {
                return Err(format!(
                    "{path} of {} bytes is not a version of the source",
                    bytes.len()
                ));
            }
        }
        Ok(())
    }

    /// A MOVE within a federation that was broken off has put a file at one endpoint, and has not
    /// removed the file that it replaces at the other one: both are there. The job says so.
    fn is_moved_in_part(&self, path: &str, bytes: &[u8]) -> bool {
        let Some(name) = path.strip_suffix(OF_OTHER_ENDPOINT) else { return false };
        let is_replaced = self.job.target.get(name).is_some_and(|it| it == bytes)
            && self.after.get(name).is_some_and(|it| self.is_version(name, it));
        !self.job.outcome.is_good() && (is_replaced || self.is_version(name, bytes))
    }

    /// A success means that the target has all that the source shows, and with `--delete` no more.
    fn check_success(&self) -> Verdict {
        let History { verb, existing, .. } = self.history();
        let is_unseen = |place: &Place, end: &End, path: &str| {
            let is_hidden = end.behaviour().has_index && format!("/{path}").contains("/.");
            is_hidden || place.omitted().iter().any(|it| is_in(path, it))
        };
        let is_tree = !matches!(verb, Verb::Copy | Verb::Put);
        for path in self.job.source.keys() {
            let is_selected = self.versions.iter().any(|(it, _)| it == path);
            if !is_selected || is_tree && is_unseen(&self.job.ends.from, &self.history().from, path)
            {
                continue;
            }
            let Some(now) = self.at_target(path) else {
                return Err(format!("{path} is not at the target"));
            };
            let was_there = self.job.target.keys().any(|it| self.key(it) == self.key(path));
            let is_kept = was_there && !verb.is_sync() && *existing != OverwritePolicy::Replace;
            let is_own = self.versions.iter().any(|(it, bytes)| it == path && bytes == now);
            if !is_kept && !is_own {
                return Err(format!(
                    "{path} of {} bytes is not a version of the source",
                    now.len()
                ));
            }
        }
        for path in self.after.keys().filter(|_| *verb == Verb::SyncDelete) {
            let is_at_source = self.versions.iter().any(|(it, _)| self.key(it) == self.key(path));
            let is_unseen = is_unseen(&self.job.ends.to, &self.history().to, path);
            // Another client may have made it, or be said to have removed it.
            let is_new = self.job.ends.to.made_again().contains(path)
                || is_denied(self.job, path)
                || is_left(self.job, path);
            if !is_at_source && !is_partial(path) && !is_unseen && !is_new {
                return Err(format!("{path} was not deleted"));
            }
        }
        Ok(())
    }
}

/// Returns true for a file by which the program has tested which names the target takes for one,
/// and which it could not remove because of a fault or a timeout.
fn is_left(job: &Job<'_>, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_test = name.get(..PARTIAL_BYTES).is_some_and(is_partial);
    let is_hit = |(_, it): &(WebDavFault, String)| it == path;
    is_test && (job.history.is_slow() || job.ends.to.happened().iter().any(is_hit))
}

/// Returns true if the target has said that a name, or a directory that it is in, does not exist.
fn is_denied(job: &Job<'_>, path: &str) -> bool {
    let mut happened = job.ends.to.happened().into_iter();
    happened.any(|(fault, it)| fault == WebDavFault::Status(404) && is_in(path, &it))
}

/// Returns true if `path` is `name`, or in it; the name of the tree is empty.
fn is_in(path: &str, name: &str) -> bool {
    name.is_empty() || path == name || path.starts_with(&format!("{}/", name.trim_end_matches('/')))
}

fn check_removal(job: &Job<'_>) -> Verdict {
    let after = job.ends.to.files();
    let named = removed(job.history);
    let is_named = |path: &str| is_at(job, path, &named);
    for (path, bytes) in job.target.iter().filter(|(path, _)| !is_named(path)) {
        if after.get(path) != Some(bytes) {
            return Err(format!("{path} is gone, and {named} was to be removed"));
        }
    }
    let mut left =
        after.iter().filter(|(path, bytes)| is_named(path) && !is_of_another_client(bytes));
    match left.find(|(path, _)| !is_denied(job, path)) {
        Some((path, _)) if job.outcome.is_good() => Err(format!("{path} was not removed")),
        _ => Ok(()),
    }
}

/// Returns true if `path` is `named`, or in it, at the target.
fn is_at(job: &Job<'_>, path: &str, named: &str) -> bool {
    let folds = job.history.to.behaviour().ignores_case;
    let key = |text: &str| if folds { text.to_ascii_lowercase() } else { text.to_owned() };
    let rest = key(path).strip_prefix(&key(named)).map(str::to_owned);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn check_move(job: &Job<'_>) -> Verdict {
    let after = job.ends.to.files();
    let from = removed(job.history);
    let to = match job.history.verb {
        Verb::Move => job.history.files.get(1).map_or("moved", |file| &file.path),
        _ => "moved",
    };
    let may_replace = job.history.existing == OverwritePolicy::Replace;
    let is_good = job.outcome.is_good();
    for (path, bytes) in &job.target {
        if is_at(job, path, to) {
            let is_kept = after.get(path) == Some(bytes);
            if !is_kept && !may_replace {
                return Err(format!("{path} may not be replaced"));
            }
            continue;
        }
        if !is_at(job, path, &from) {
            if after.get(path) != Some(bytes) {
                return Err(format!("{path} has changed, and {from} was to be moved"));
            }
            continue;
        }
        let moved = format!("{to}{}", path.get(from.len()..).unwrap_or_default());
        let is_here = after.get(path) == Some(bytes);
        let is_there = after.iter().any(|(it, now)| is_at(job, it, &moved) && now == bytes);
        // A MOVE within a federation that was broken off: as [`Transfer::is_moved_in_part`].
        let other = after.get(&format!("{moved}{OF_OTHER_ENDPOINT}"));
        if !is_here && !is_there && (is_good || other != Some(bytes)) {
            return Err(format!("{path} is neither there nor at {moved}"));
        }
        if is_good && (is_here || !is_there || other.is_some()) {
            return Err(format!("{path} was not moved to {moved}"));
        }
    }
    Ok(())
}

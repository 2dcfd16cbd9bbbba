//! Merging: one entry, and one listing, from the answers of many endpoints.
//!
//! **Agreement.** A name at several endpoints is one entry if they agree about its kind and size.
//! Where they differ, the entry is the one that most of them have, or, in a tie, the one of the
//! endpoint that comes first in the configuration. The others do not hold this entry, so clients
//! are not redirected there for it. An endpoint that does not state the size of a file agrees with
//! none: it counts only where no endpoint states one, and then the first of them holds the entry
//! alone. The result depends on the answers and not on their order.
//!
//! **Evidence.** Another kind, size or checksum is proof that the file is another one, and excludes
//! an endpoint ([`MergedEntry::exclude`] for checksums, which are requested later). Another date is
//! not: storages date files by their arrival, so correct replicas mostly have different dates. It
//! counts as proof only where the configuration states that dates are kept
//! ([`compare_dates`](crate::FederationSettings::compare_dates)); otherwise holders whose date is
//! different or not known are assumed to be equal, and are reported as such
//! ([`MergedEntry::assumed`]). Entity tags of two servers differ for one file, and prove nothing.
//!
//! **Completeness.** An endpoint that has not answered may have more names, unless another one that
//! has listed the directory is declared to have all its files. The merged listing names those
//! endpoints: code that passes it on has to report them. A name that is missing at all endpoints
//! that answered is missing only if all have answered.
//!
//! **Names that fail.** A name that an endpoint lists and fails to describe, for whatever reason,
//! fails alone: nothing else in the directory depends on it, and no name is missing. Unless another
//! endpoint describes it, it is [`refused`](MergedListing::refused), so that clients know that it
//! exists.

use hither_core::error::Error;
use hither_core::storage::{DirEntry, FileKind, file_name};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

/// A byte that never occurs in UTF-8, in place of the unknown bytes of a name.
const NO_UTF8: u8 = 0xff;

/// The number of an endpoint, in the order of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u16);

/// The properties of an entry that endpoints have to agree on, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryFacts {
    /// The kind: a file or a directory.
    pub kind: FileKind,
    /// The size in bytes, 0 for a directory; none if the endpoint does not state it.
    pub size: Option<u64>,
    /// The time of the last change, if the endpoint states it.
    pub modified: Option<SystemTime>,
}

impl EntryFacts {
    /// A directory without a time.
    pub const DIRECTORY: Self = Self { kind: FileKind::Directory, size: Some(0), modified: None };

    /// The facts of an endpoint's entry; none for an entry that is neither a file nor a directory.
    #[must_use]
    pub fn of(entry: &DirEntry) -> Option<Self> {
        let is_named = matches!(entry.kind, FileKind::File | FileKind::Directory);
        let DirEntry { kind, size, modified, .. } = *entry;
        is_named.then_some(Self { kind, size, modified })
    }

    fn agrees(&self, other: &Self, compare_dates: bool) -> bool {
        let is_dated = || self.seconds().is_some() && self.seconds() == other.seconds();
        self.size.is_some()
            && (self.kind, self.size) == (other.kind, other.size)
            && (!compare_dates || self.kind == FileKind::Directory || is_dated())
    }

    /// The date in whole seconds since 1970, as HTTP states it.
    fn seconds(&self) -> Option<u64> {
        Some(self.modified?.duration_since(UNIX_EPOCH).ok()?.as_secs())
    }
}

/// An entry of the federation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedEntry {
    /// Its properties, with the time of its first holder that states one.
    pub facts: EntryFacts,
    /// The endpoints that hold it, in the order of the configuration.
    pub holders: Vec<EndpointId>,
    /// The time of the last change at each of them; empty if that is `facts.modified` at all of
    /// them.
    pub dates: Box<[Option<SystemTime>]>,
    /// The endpoints whose entry of this name differs.
    pub differing: Vec<EndpointId>,
}

/// Merges the answers of endpoints about one name; none if no endpoint has it. With
/// `compare_dates`, files of different or unknown dates differ.
#[must_use]
pub fn merge_entry(
    mut answers: Vec<(EndpointId, EntryFacts)>,
    compare_dates: bool,
) -> Option<MergedEntry> {
    answers.sort_by_key(|(id, _)| *id);
    merge_sorted(&answers, compare_dates)
}

/// Merges answers in the order of the endpoints.
fn merge_sorted(answers: &[(EndpointId, EntryFacts)], compare_dates: bool) -> Option<MergedEntry> {
    let agrees = |one: &EntryFacts, other: &EntryFacts| one.agrees(other, compare_dates);
    let votes = |facts: &EntryFacts| answers.iter().filter(|(_, it)| agrees(it, facts)).count();
    let (first, facts) = answers.first()?;
    let (holder, chosen) = if votes(facts) == answers.len() {
        (first, facts)
    } else {
        // `max_by_key` returns the last of equal maxima, so the order is reversed.
        let most = answers.iter().rev().max_by_key(|(_, facts)| votes(facts))?;
        (&most.0, &most.1)
    };
    let mut merged = MergedEntry {
        facts: *chosen,
        holders: Vec::new(),
        dates: Box::default(),
        differing: Vec::new(),
    };
    let mut dates = Vec::with_capacity(answers.len());
    for (id, facts) in answers {
        if id == holder || agrees(facts, chosen) {
            merged.holders.push(*id);
            dates.push(facts.modified);
        } else {
            merged.differing.push(*id);
        }
    }
    merged.set_dates(dates);
    Some(merged)
}

impl MergedEntry {
    /// Sets the dates of the holders, and that of the entry.
    fn set_dates(&mut self, dates: Vec<Option<SystemTime>>) {
        let date = dates.iter().find_map(|date| *date);
        self.facts.modified = date;
        let differ = dates.iter().any(|it| *it != date);
        self.dates = if differ { dates.into() } else { Box::default() };
    }

    /// Removes holders whose content is known to differ, unless none would be left.
    pub fn exclude(&mut self, others: &[EndpointId]) {
        let (excluded, kept): (Vec<_>, Vec<_>) =
            self.dated_holders().partition(|(id, _)| others.contains(id));
        if excluded.is_empty() || kept.is_empty() {
            return;
        }
        self.differing.extend(excluded.into_iter().map(|(id, _)| id));
        self.differing.sort_unstable();
        let dates = kept.iter().map(|(_, date)| *date).collect();
        self.holders = kept.into_iter().map(|(id, _)| id).collect();
        self.set_dates(dates);
    }

    /// The holders of which only the size shows that they have the same file as the first one:
    /// their dates differ, or are not known.
    #[must_use]
    pub fn assumed(&self) -> Vec<EndpointId> {
        let mut holders = self.dated_holders();
        let first = holders.next().and_then(|(_, date)| date);
        let is_dated = |date: &Option<SystemTime>| date.is_some() && *date == first;
        holders.filter(|(_, date)| !is_dated(date)).map(|(id, _)| id).collect()
    }

    /// The holders, each with the time of the last change there.
    pub(crate) fn dated_holders(&self) -> impl Iterator<Item = (EndpointId, Option<SystemTime>)> {
        let date = |index| self.dates.get(index).copied().unwrap_or(self.facts.modified);
        self.holders.iter().enumerate().map(move |(index, id)| (*id, date(index)))
    }
}

/// A directory of the federation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergedListing {
    /// The names with their entries, in the order of their bytes.
    pub entries: Vec<(Box<str>, MergedEntry)>,
    /// The endpoints that may have more names, because they have not answered.
    pub unanswered: Vec<EndpointId>,
    /// Further endpoints that have not answered, but are copies of one that has.
    pub copied: Vec<EndpointId>,
    /// The names that exist and that no endpoint describes, in the order of their bytes: those that
    /// an endpoint lists without metadata, and those that no client can request, because they are
    /// not UTF-8 or have control characters. Of those that are not UTF-8 only the other bytes are
    /// known.
    pub refused: Vec<Box<[u8]>>,
    /// The listing of an endpoint may hide names.
    pub hides_names: bool,
}

impl MergedListing {
    /// Returns true if no endpoint that has not answered may have more names.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// The entry of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&MergedEntry> {
        let found = self.entries.binary_search_by(|(it, _)| (**it).cmp(name)).ok()?;
        self.entries.get(found).map(|(_, entry)| entry)
    }

    /// Returns true for a name that exists and has no entry.
    #[must_use]
    pub fn is_refused(&self, name: &str) -> bool {
        self.refused.binary_search_by(|it| (**it).cmp(name.as_bytes())).is_ok()
    }

    /// The memory that it takes, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let of_entry = |(name, entry): &(Box<str>, MergedEntry)| {
            let ids = entry.holders.capacity() + entry.differing.capacity();
            let dates = size_of_val(&*entry.dates);
            size_of::<(Box<str>, MergedEntry)>()
                + name.len()
                + ids * size_of::<EndpointId>()
                + dates
        };
        let refused = self.refused.iter().map(|name| size_of::<Box<[u8]>>() + name.len());
        self.entries.iter().map(of_entry).chain(refused).sum::<usize>() + size_of::<Self>()
    }
}

/// Collects the listings of endpoints.
#[derive(Debug, Default)]
pub struct ListingMerger {
    names: Vec<(Box<str>, EndpointId, EntryFacts)>,
    unanswered: Vec<EndpointId>,
    refused: BTreeSet<Box<[u8]>>,
    hides_names: bool,
    compare_dates: bool,
}

impl ListingMerger {
    /// Collects listings to merge them as [`merge_entry`] merges answers.
    #[must_use]
    pub fn new(compare_dates: bool) -> Self {
        Self { compare_dates, ..Self::default() }
    }

    /// Adds the entries of an endpoint. Entries that are neither files nor directories are skipped.
    pub fn add(&mut self, endpoint: EndpointId, entries: &[DirEntry]) {
        for unnamed in entries.iter().filter(|it| it.kind == FileKind::Unnamed) {
            let name = file_name(&unnamed.path).replace(char::REPLACEMENT_CHARACTER, "\0");
            let bytes = name.bytes().map(|byte| if byte == 0 { NO_UTF8 } else { byte });
            self.refused.insert(bytes.collect());
        }
        self.names.extend(entries.iter().filter_map(|entry| {
            Some((file_name(&entry.path).into(), endpoint, EntryFacts::of(entry)?))
        }));
    }

    /// Adds a directory that leads to the rules of an endpoint.
    pub fn add_leading(&mut self, endpoint: EndpointId, name: &str) {
        self.names.push((name.into(), endpoint, EntryFacts::DIRECTORY));
    }

    /// Adds names that an endpoint lists without metadata.
    pub fn add_failed(&mut self, failed: &[(String, Error)]) {
        self.refused.extend(failed.iter().map(|(path, _)| file_name(path).as_bytes().into()));
    }

    /// Notes that an endpoint may have names that it does not list.
    pub fn note_hidden(&mut self) {
        self.hides_names = true;
    }

    /// Adds an endpoint that has not answered.
    pub fn add_unanswered(&mut self, endpoint: EndpointId) {
        self.unanswered.push(endpoint);
    }

    /// The merged listing.
    #[must_use]
    pub fn finish(mut self) -> MergedListing {
        self.names.sort_unstable_by(|(a, one, _), (b, other, _)| (a, one).cmp(&(b, other)));
        // An endpoint lists a name once; a directory that leads to its rules may be listed as well.
        self.names.dedup_by(|(a, one, _), (b, other, _)| a == b && one == other);
        self.unanswered.sort_unstable();
        let mut entries: Vec<(Box<str>, MergedEntry)> = Vec::new();
        let mut answers = Vec::new();
        let mut names = self.names.into_iter().peekable();
        while let Some((name, endpoint, facts)) = names.next() {
            answers.push((endpoint, facts));
            if names.peek().is_some_and(|(next, ..)| *next == name) {
                continue;
            }
            entries.extend(merge_sorted(&answers, self.compare_dates).map(|merged| (name, merged)));
            answers.clear();
        }
        let names = entries.iter().map(|(name, _)| name.as_bytes()).collect::<BTreeSet<_>>();
        let refused = self.refused.into_iter().filter(|it| !names.contains(&**it)).collect();
        MergedListing {
            entries,
            unanswered: self.unanswered,
            copied: Vec::new(),
            refused,
            hides_names: self.hides_names,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::error::ErrorKind;
    use proptest::prelude::*;
    use std::time::Duration;

    fn file(size: u64) -> EntryFacts {
        EntryFacts { kind: FileKind::File, size: Some(size), modified: None }
    }

    fn ids(numbers: &[u16]) -> Vec<EndpointId> {
        numbers.iter().copied().map(EndpointId).collect()
    }

    #[test]
    fn most_endpoints_decide_and_then_the_first_one() {
        let merged = |answers: &[(u16, EntryFacts)]| {
            let answers = answers.iter().map(|(id, facts)| (EndpointId(*id), *facts));
            merge_entry(answers.collect(), false)
        };
        assert_eq!(merged(&[]), None);
        let lied = merged(&[(0, file(9)), (2, file(5)), (1, file(5))]).unwrap();
        assert_eq!((lied.facts, lied.holders, lied.differing), (file(5), ids(&[1, 2]), ids(&[0])));
        let tied = merged(&[(3, EntryFacts::DIRECTORY), (1, file(5))]).unwrap();
        assert_eq!((tied.facts, tied.holders, tied.differing), (file(5), ids(&[1]), ids(&[3])));
        // Unknown sizes equal no size, and not each other.
        let unknown = EntryFacts { size: None, ..file(0) };
        for size in [0, 5] {
            let entry = merged(&[(0, unknown), (1, unknown), (2, file(size))]).unwrap();
            assert_eq!((entry.facts, entry.holders), (file(size), ids(&[2])));
            assert_eq!(entry.differing, ids(&[0, 1]));
        }
        let alone = merged(&[(1, unknown), (0, unknown)]).unwrap();
        assert_eq!((alone.facts, alone.holders, alone.differing), (unknown, ids(&[0]), ids(&[1])));
    }

    #[test]
    fn another_date_is_proof_only_where_dates_are_kept() {
        let dated = |milliseconds| EntryFacts {
            modified: Some(UNIX_EPOCH + Duration::from_millis(milliseconds)),
            ..file(5)
        };
        let answers = [dated(7_000), file(5), dated(9_000), dated(9_400)];
        let merged = |compare_dates| {
            let answers = (0..).map(EndpointId).zip(answers).collect();
            merge_entry(answers, compare_dates).unwrap()
        };
        let ignored = merged(false);
        assert_eq!((&*ignored.holders, ignored.differing.len()), (&*ids(&[0, 1, 2, 3]), 0));
        assert_eq!(ignored.assumed(), ids(&[1, 2, 3]));
        let compared = merged(true);
        assert_eq!((compared.holders, compared.differing), (ids(&[2, 3]), ids(&[0, 1])));
        assert_eq!(compared.facts, dated(9_000));
    }

    #[test]
    fn an_endpoint_is_excluded_unless_it_is_the_last_one() {
        let old = EntryFacts { modified: Some(UNIX_EPOCH), ..file(5) };
        let answers =
            vec![(EndpointId(0), old), (EndpointId(1), file(5)), (EndpointId(2), file(5))];
        let mut merged = merge_entry(answers, false).unwrap();
        merged.exclude(&ids(&[0, 7]));
        let expected = (file(5), ids(&[1, 2]), ids(&[0]), Box::default());
        assert_eq!(
            (merged.facts, merged.holders.clone(), merged.differing.clone(), merged.dates.clone()),
            expected
        );
        merged.exclude(&ids(&[1, 2]));
        assert_eq!(merged.holders, ids(&[1, 2]));
    }

    #[test]
    fn names_without_a_description_are_refused() {
        let mut merger = ListingMerger::default();
        let unnamed = DirEntry::new("d/run\u{fffd}", FileKind::Unnamed, 0);
        merger.add(EndpointId(0), &[DirEntry::new("d/a", FileKind::File, 1), unnamed]);
        for (name, kind) in [
            ("a", ErrorKind::Unavailable),
            ("a\nb", ErrorKind::Invalid),
            ("broken", ErrorKind::Unavailable),
            ("pipe", ErrorKind::PermissionDenied),
        ] {
            merger.add_failed(&[(format!("d/{name}"), Error::new(kind, "failed"))]);
        }
        let listing = merger.finish();
        assert!(listing.is_complete() && listing.entries.len() == 1);
        let refused: [&[u8]; 4] = [b"a\nb", b"broken", b"pipe", b"run\xff"];
        assert_eq!(listing.refused, refused.map(Box::from));
        assert!(listing.is_refused("pipe") && !listing.is_refused("a"));
    }

    #[test]
    fn an_endpoint_without_an_answer_makes_a_listing_incomplete() {
        let mut merger = ListingMerger::default();
        merger.add(EndpointId(1), &[DirEntry::new("d/a", FileKind::File, 1)]);
        merger.add_leading(EndpointId(1), "a");
        merger.add_unanswered(EndpointId(0));
        let listing = merger.finish();
        assert!(!listing.is_complete() && listing.unanswered == ids(&[0]));
        assert!(listing.get("a").is_some() && listing.get("b").is_none());
    }

    proptest! {
        #[test]
        fn a_merged_listing_is_the_union_in_any_order(
            lists in prop::collection::vec(prop::collection::btree_map("[a-d]{1,2}", 0u64..3, 0..9), 1..6),
            backwards: bool,
        ) {
            let mut merger = ListingMerger::default();
            let mut order: Vec<_> = lists.iter().zip(0u16..).collect();
            if backwards {
                order.reverse();
            }
            for (list, id) in order {
                let entries: Vec<_> =
                    list.iter().map(|(name, size)| DirEntry::new(name, FileKind::File, *size)).collect();
                merger.add(EndpointId(id), &entries);
            }
            let merged = merger.finish();
            let union: BTreeSet<_> = lists.iter().flat_map(|list| list.keys().map(String::as_str)).collect();
            let names: Vec<_> = merged.entries.iter().map(|(name, _)| &**name).collect();
            prop_assert_eq!(names, union.into_iter().collect::<Vec<_>>());
            for (name, entry) in &merged.entries {
                for (list, id) in lists.iter().zip(0u16..) {
                    let size = list.get(&**name).copied();
                    let id = EndpointId(id);
                    prop_assert_eq!(entry.holders.contains(&id), size == entry.facts.size);
                    prop_assert_eq!(entry.differing.contains(&id), size.is_some_and(|it| Some(it) != entry.facts.size));
                }
            }
        }
    }
}

//! Lots compared with a model, on a disk that can be full, with crashes.

use crate::lots::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;

const MIB: u64 = 1 << 20;
const LIMITS: LotLimits =
    LotLimits { lots: 4, bytes: 1 << 40, lease: 1_000, bytes_per_file: 5 * MIB };
/// The size of the disk.
const CAPACITY: u64 = 2_048 * MIB;

/// A model of a disk: its named files, unnamed files and reserve.
#[derive(Debug, Default)]
struct Disk {
    files: BTreeMap<String, u64>,
    /// Files without a name.
    unnamed: u64,
    reserve: u64,
}

impl Disk {
    fn left(&self) -> u64 {
        let named = self.files.values().map(|size| footprint(*size)).sum::<u64>();
        CAPACITY - named - self.unnamed - self.reserve
    }
}

#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Disk>>);

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut Disk) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    fn take(&self, bytes: u64) -> io::Result<()> {
        self.with(|disk| {
            if bytes > disk.left() {
                return Err(Errno::NOSPC.into());
            }
            disk.unnamed += bytes;
            Ok(())
        })
    }
}

impl Reserve for Shared {
    fn bytes(&self) -> u64 {
        self.with(|disk| disk.reserve)
    }

    fn resize(&mut self, bytes: u64) -> io::Result<()> {
        self.with(|disk| {
            if bytes > disk.left() + disk.reserve {
                return Err(Errno::NOSPC.into());
            }
            disk.reserve = bytes;
            Ok(())
        })
    }

    fn lend(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl UsageCounter for Shared {
    fn below(&self, path: &str) -> io::Result<Space> {
        let inside =
            |file: &str| path.is_empty() || file == path || file.starts_with(&format!("{path}/"));
        Ok(self.with(|disk| {
            let files = disk.files.iter().filter(|(file, _)| inside(file));
            files.fold(Space::default(), |all, (_, size)| all + Space::of_file(*size))
        }))
    }
}

fn open(folder: &Path, name: &str, disk: &Shared, now: u64) -> Arc<Lots> {
    let reserve = Box::new(disk.clone());
    let usage = Box::new(disk.clone());
    Arc::new(Lots::open(&folder.join(name), LIMITS, reserve, usage, now).unwrap())
}

fn new_lots() -> (tempfile::TempDir, Shared, Arc<Lots>) {
    let folder = tempfile::tempdir().unwrap();
    let disk = Shared::default();
    let lots = open(folder.path(), "lots", &disk, 0);
    (folder, disk, lots)
}

#[test]
fn a_write_fits_or_fails_before_it_begins() {
    let (_folder, disk, lots) = new_lots();
    let lot = lots.create("alice", "a", 10 * MIB, 100, 0).unwrap();
    assert_eq!(disk.bytes(), 10 * MIB);
    let first = lots.charge("a/x", Space::of_file(6 * MIB), 1).unwrap();
    let full = LotError::Full { path: "a".to_owned(), left: 4 * MIB };
    assert_eq!(lots.charge("a/b/y", Space::of_file(4 * MIB + 1), 1).unwrap_err(), full);
    drop(lots.charge("ab/y", Space::of_file(400 * MIB), 1).unwrap());
    drop(first);
    let second = lots.charge("a/y", Space::of_file(10 * MIB), 1).unwrap();
    assert_eq!(lots.quota("a/anything", 1), Some((0, 10 * MIB)));
    second.settle(Space::of_file(5 * MIB - 7), Space::default());
    assert_eq!(lots.find("alice", &lot.id, 1).unwrap().used, 5 * MIB);
    lots.charge("a/y", Space::of_file(MIB), 1)
        .unwrap()
        .settle(Space::of_file(1), Space::of_file(5 * MIB - 7));
    assert_eq!(lots.quota("a", 1), Some((10 * MIB - 4096, 4096)));
    lots.shift("a/y", Space::of_file(4096), Space::default());
    assert_eq!(lots.quota("a", 1), Some((10 * MIB, 0)));
    assert_eq!(lots.quota("b", 1), None);
}

#[test]
fn a_body_of_unknown_length_takes_a_lot_to_its_last_byte() {
    let (_folder, _disk, lots) = new_lots();
    lots.create("alice", "a", 9 * MIB, 100, 0).unwrap();
    let mut charge = lots.charge("a/x", Space::of_file(0), 0).unwrap();
    for mib in 1..=9 {
        charge.cover(mib * MIB).unwrap();
    }
    assert_eq!(charge.cover(9 * MIB + 1), Err(LotError::Full { path: "a".into(), left: 0 }));
    charge.settle(Space::of_file(9 * MIB), Space::default());
    assert_eq!(lots.quota("a", 0), Some((0, 9 * MIB)));
    let mut nowhere = lots.charge("b", Space::of_file(0), 0).unwrap();
    nowhere.cover(1 << 50).unwrap();
}

#[test]
fn empty_files_and_directories_count_until_they_are_removed() {
    let (_folder, disk, lots) = new_lots();
    let lot = lots.create("alice", "a", 10 * MIB, 100, 0).unwrap();
    assert_eq!((lot.files, lot.used_files), (2, 0));
    lots.charge("a/d", Space::of_name(), 0).unwrap().settle(Space::of_name(), Space::default());
    let file = lots.charge("a/d/x", Space::of_file(0), 0).unwrap();
    let full = LotError::TooManyFiles { path: "a".to_owned(), files: 2 };
    assert_eq!(lots.charge("a/y", Space::of_file(0), 0).unwrap_err(), full);
    drop(file);
    let file = lots.charge("a/y", Space::of_file(0), 0).unwrap();
    file.settle(Space::of_file(0), Space::default());
    assert_eq!(lots.find("alice", &lot.id, 0).unwrap().used_files, 2);
    lots.shift("a/y", Space::of_file(0), Space::default());
    assert_eq!(lots.totals(), (1, 10 * MIB, Space { bytes: 0, files: 1 }));
    for n in 0..4 {
        disk.with(|disk| disk.files.insert(format!("b/{n}"), 0));
    }
    assert!(matches!(lots.create("bob", "b", 15 * MIB, 9, 0), Err(LotError::Invalid(_))));
    let lot = lots.create("bob", "b", 20 * MIB, 9, 0).unwrap();
    assert_eq!((lot.files, lot.used_files), (4, 4));
    let less = lots.extend("bob", &lot.id, Some(15 * MIB), None, 0);
    assert!(matches!(less, Err(LotError::Invalid(_))), "{less:?}");
}

#[test]
fn invalid_requests_are_errors() {
    let (_folder, disk, lots) = new_lots();
    let create = |owner: &str, path: &str, bytes, lease| lots.create(owner, path, bytes, lease, 0);
    let lot = create("alice", "a/b", MIB, 10).unwrap();
    for path in ["a/b", "a", "", "a/b/c"] {
        assert_eq!(create("bob", path, MIB, 10), Err(LotError::Overlap), "{path}");
    }
    assert!(create("bob", "a/bc", MIB, 10).is_ok());
    assert!(matches!(create("bob", "x", 0, 10), Err(LotError::Invalid(_))));
    assert!(matches!(create("bob", "x", MIB, 0), Err(LotError::Invalid(_))));
    assert!(matches!(create("bob", "x", MIB, 1_001), Err(LotError::Terms(_))));
    assert!(matches!(create("bob", "x", u64::MAX, 10), Err(LotError::Terms(_))));
    assert_eq!(create("bob", "x", 1 << 39, 10), Err(LotError::NoSpace));
    assert_eq!(lots.of("bob", 0).len(), 1, "nothing is left of what failed");
    assert_eq!(disk.bytes(), 2 * MIB);
    for id in [lot.id.as_str(), "nonsense", ""] {
        assert_eq!(lots.release("bob", id, 0), Err(LotError::NotFound));
        assert_eq!(lots.extend("bob", id, Some(7), None, 0), Err(LotError::NotFound));
        assert_eq!(lots.find("bob", id, 0), Err(LotError::NotFound));
    }
    let _held = lots.charge("a/b/x", Space::of_file(MIB), 0).unwrap();
    let less = lots.extend("alice", &lot.id, Some(MIB - 4096), None, 0);
    assert!(matches!(less, Err(LotError::Invalid(_))));
    let longer = lots.extend("alice", &lot.id, Some(3 * MIB), Some(500), 5).unwrap();
    assert_eq!((longer.bytes, longer.expires, longer.used), (3 * MIB, 505, MIB));
}

#[test]
fn a_lease_that_ends_frees_its_space() {
    let (_folder, disk, lots) = new_lots();
    let lot = lots.create("alice", "a", 100 * MIB, 10, 0).unwrap();
    let charge = lots.charge("a/x", Space::of_file(60 * MIB), 9).unwrap();
    assert_eq!(lots.quota("a", 10), None);
    assert_eq!(lots.find("alice", &lot.id, 10), Err(LotError::NotFound));
    lots.tend(10).unwrap();
    assert_eq!(disk.bytes(), 0);
    // Active writes may end; a lot that was created meanwhile counts them.
    let next = lots.create("bob", "a", 100 * MIB, 10, 10).unwrap();
    charge.settle(Space::of_file(60 * MIB), Space::default());
    assert_eq!(lots.find("bob", &next.id, 10).unwrap().used, 60 * MIB);
}

#[test]
fn a_full_disk_has_room_for_reserved_bytes() {
    let (_folder, disk, lots) = new_lots();
    lots.create("alice", "a", 32 * MIB, 10, 0).unwrap();
    disk.take(disk.with(|disk| disk.left())).unwrap();
    let charge = lots.charge("a/x", Space::of_file(32 * MIB), 0).unwrap();
    assert!(disk.take(32 * MIB).is_err(), "it is in the reserve");
    charge.with_room(|| disk.take(32 * MIB)).unwrap();
    assert!(charge.with_room(|| disk.take(1)).is_err());
    charge.settle(Space::of_file(32 * MIB), Space::default());
    assert_eq!(disk.bytes(), 0);
}

#[test]
fn lots_in_a_removed_folder_are_empty() {
    let (_folder, disk, lots) = new_lots();
    disk.with(|disk| disk.files.insert("a/b/x".to_owned(), 4 * MIB));
    lots.create("alice", "a/b", 10 * MIB, 10, 0).unwrap();
    assert_eq!(disk.bytes(), 6 * MIB);
    assert!(lots.touches("a", 0) && lots.touches("a/b/c", 0) && !lots.touches("c", 0));
    assert!(
        lots.is_same("a/b/x", "a/b/c/d") && !lots.is_same("a/b", "a") && lots.is_same("a", "c")
    );
    disk.with(|disk| disk.files.clear());
    lots.recount("a").unwrap();
    assert_eq!((lots.quota("a/b", 0), disk.bytes()), (Some((10 * MIB, 0)), 10 * MIB));
}

#[test]
fn an_unreadable_database_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lots");
    fs::write(&path, b"not a database").unwrap();
    let usage = Box::new(DirectoryUsage(folder.path().to_owned()));
    let opened = Lots::open(&path, LIMITS, Box::new(NoReserve::default()), usage, 0);
    assert!(matches!(opened, Err(LotError::Failed(_))), "{opened:?}");
}

/// An event; its numbers select from the existing lots, writes and files.
#[derive(Debug, Clone)]
enum Event {
    Create {
        owner: usize,
        path: usize,
        units: u64,
        lease: u64,
    },
    Extend {
        lot: usize,
        units: Option<u64>,
        lease: Option<u64>,
    },
    Release {
        lot: usize,
    },
    Begin {
        path: usize,
        units: u64,
    },
    End {
        write: usize,
        units: u64,
    },
    GiveUp {
        write: usize,
    },
    Remove {
        file: usize,
    },
    /// Another process fills the disk, or removes its files again.
    Fill(bool),
    Pass(u64),
    Crash,
}

const OWNERS: [&str; 2] = ["alice", "bob"];
const PATHS: [&str; 6] = ["", "a", "a/b", "a/b/c", "ab", "c"];
/// Large enough that the slack of the reserve is a few units.
const UNIT: u64 = 16 * MIB;

fn event() -> impl Strategy<Value = Event> {
    let one = 0..64_usize;
    prop_oneof![
        3 => (0..2_usize, 0..6_usize, 0..40_u64, 0..40_u64)
            .prop_map(|(owner, path, units, lease)| Event::Create { owner, path, units, lease }),
        1 => (one.clone(), prop::option::of(0..60_u64), prop::option::of(0..40_u64))
            .prop_map(|(lot, units, lease)| Event::Extend { lot, units, lease }),
        1 => one.clone().prop_map(|lot| Event::Release { lot }),
        5 => (0..6_usize, 0..20_u64).prop_map(|(path, units)| Event::Begin { path, units }),
        4 => (one.clone(), 0..20_u64).prop_map(|(write, units)| Event::End { write, units }),
        1 => one.clone().prop_map(|write| Event::GiveUp { write }),
        2 => one.prop_map(|file| Event::Remove { file }),
        1 => any::<bool>().prop_map(Event::Fill),
        2 => (0..8_u64).prop_map(Event::Pass),
        1 => Just(Event::Crash),
    ]
}

/// An active write: its charge, file and size, and its lot in the model.
struct Write {
    charge: LotCharge,
    file: String,
    bytes: u64,
    lot: Option<String>,
}

/// The expected state, as simple as possible: lots in a list, and sums over files.
struct Model {
    folder: tempfile::TempDir,
    opened: usize,
    disk: Shared,
    lots: Arc<Lots>,
    known: Vec<Lot>,
    writes: Vec<Write>,
    others: u64,
    now: u64,
}

impl Model {
    fn new() -> Self {
        let (folder, disk, lots) = new_lots();
        Self {
            folder,
            opened: 0,
            disk,
            lots,
            known: Vec::new(),
            writes: Vec::new(),
            others: 0,
            now: 0,
        }
    }

    fn expected(&self, lot: &Lot) -> Lot {
        let writes = self.writes.iter().filter(|write| write.lot.as_ref() == Some(&lot.id));
        let pending = writes.fold(Space::default(), |all, write| all + Space::of_file(write.bytes));
        let Space { bytes: used, files: used_files } =
            self.disk.below(&lot.path).unwrap() + pending;
        Lot { used, used_files, ..lot.clone() }
    }

    fn free(&self, lot: &Lot) -> u64 {
        lot.bytes.saturating_sub(self.expected(lot).used)
    }

    fn lot_of(&self, file: &str) -> Option<&Lot> {
        self.known.iter().find(|lot| holds(&lot.path, file))
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Create { owner, path, units, lease } => {
                self.end_leases();
                let made = self.lots.create(OWNERS[owner], PATHS[path], units * UNIT, lease, now);
                let overlaps =
                    |lot: &&Lot| holds(&lot.path, PATHS[path]) || holds(PATHS[path], &lot.path);
                let used = self.disk.below(PATHS[path]).unwrap();
                let promised = self.known.iter().map(|lot| self.free(lot)).sum::<u64>();
                let sane = lease > 0
                    && units > 0
                    && units * UNIT >= used.bytes
                    && LIMITS.files(units * UNIT) >= used.files
                    && self.known.len() < LIMITS.lots;
                let fits = promised + (units * UNIT).saturating_sub(used.bytes)
                    <= self.disk.with(|disk| disk.left() + disk.reserve);
                let fine = sane && !self.known.iter().any(|lot| overlaps(&lot)) && fits;
                assert_eq!(made.is_ok(), fine, "{made:?}");
                self.known.extend(made);
            }
            Event::Extend { lot, units, lease } => self.extend(lot, units, lease),
            Event::Release { lot } if !self.known.is_empty() => {
                self.end_leases();
                if self.known.is_empty() {
                    return;
                }
                let lot = self.known.remove(lot % self.known.len());
                // Other lots may lack blocks on a full disk; this one is released in any case.
                let _short = self.lots.release(&lot.owner, &lot.id, now);
            }
            Event::Begin { path, units } => self.begin(path, units * UNIT),
            Event::End { write, units } if !self.writes.is_empty() => {
                let write = self.writes.swap_remove(write % self.writes.len());
                let size = (units * UNIT).min(write.bytes);
                let replaced = self.disk.with(|disk| {
                    disk.unnamed -= write.bytes;
                    disk.files.insert(write.file, size)
                });
                let replaced = replaced.map(Space::of_file).unwrap_or_default();
                write.charge.settle(Space::of_file(size), replaced);
            }
            Event::GiveUp { write } if !self.writes.is_empty() => {
                let write = self.writes.swap_remove(write % self.writes.len());
                self.disk.with(|disk| disk.unnamed -= write.bytes);
            }
            Event::Remove { file } => {
                let gone = self.disk.with(|disk| {
                    let at = file % disk.files.len().max(1);
                    let name = disk.files.keys().nth(at).cloned()?;
                    disk.files.remove_entry(&name)
                });
                if let Some((name, size)) = gone {
                    self.lots.shift(&name, Space::of_file(size), Space::default());
                }
            }
            Event::Fill(true) => {
                let left = self.disk.with(|disk| disk.left());
                self.disk.take(left).unwrap();
                self.others += left;
            }
            Event::Fill(false) => {
                self.disk.with(|disk| disk.unnamed -= std::mem::take(&mut self.others));
                self.lots.tend(now).unwrap();
                self.end_leases();
            }
            Event::Pass(seconds) => self.now += seconds,
            Event::Crash => self.crash(),
            Event::Release { .. } | Event::End { .. } | Event::GiveUp { .. } => {}
        }
    }

    fn extend(&mut self, lot: usize, units: Option<u64>, lease: Option<u64>) {
        self.end_leases();
        if self.known.is_empty() {
            return;
        }
        let now = self.now;
        let at = lot % self.known.len();
        let lot = &self.known[at];
        let bytes = units.map(|units| units * UNIT);
        let size = bytes.unwrap_or(lot.bytes);
        let changed = Lot { bytes: size, files: LIMITS.files(size), ..lot.clone() };
        let promised = self
            .known
            .iter()
            .map(|other| if other.id == lot.id { self.free(&changed) } else { self.free(other) });
        let fits = promised.sum::<u64>() <= self.disk.with(|disk| disk.left() + disk.reserve);
        let expected = self.expected(&changed);
        let holds_all = size >= expected.used && changed.files >= expected.used_files;
        let fine = size > 0 && holds_all && lease != Some(0) && fits;
        let extended = self.lots.extend(&lot.owner, &lot.id, bytes, lease, now);
        assert_eq!(extended.is_ok(), fine, "{extended:?}");
        if let Ok(lot) = extended {
            self.known[at] = lot;
        }
    }

    fn begin(&mut self, path: usize, bytes: u64) {
        let file =
            format!("{}/file{}", PATHS[path], bytes / UNIT % 3).trim_start_matches('/').to_owned();
        let lot = self.lot_of(&file).filter(|lot| lot.expires > self.now);
        let has_name = |lot: &Lot| self.expected(lot).used_files < lot.files;
        let fits = lot.is_none_or(|lot| self.free(lot) >= bytes && has_name(lot));
        let is_backed =
            self.known.iter().map(|lot| self.free(lot)).sum::<u64>() <= self.disk.bytes();
        let lot = lot.map(|lot| lot.id.clone());
        let charged = self.lots.charge(&file, Space::of_file(bytes), self.now);
        assert_eq!(charged.is_ok(), fits, "{charged:?}");
        let Ok(charge) = charged else { return };
        let written = charge.with_room(|| self.disk.take(bytes));
        if lot.is_some() && is_backed {
            written.as_ref().unwrap();
        }
        if written.is_ok() {
            self.writes.push(Write { charge, file, bytes, lot });
        }
    }

    /// Ends the process: only the disk and the database remain, the latter as it is while open.
    fn crash(&mut self) {
        let name = |n: usize| format!("lots{n}");
        let from = if self.opened == 0 { "lots".to_owned() } else { name(self.opened) };
        self.opened += 1;
        fs::copy(self.folder.path().join(from), self.folder.path().join(name(self.opened)))
            .unwrap();
        let bytes = self.disk.bytes();
        self.writes.clear();
        let others = self.others;
        self.disk.with(|disk| {
            disk.unnamed = others;
            disk.reserve = 0;
            disk.reserve = bytes.min(disk.left());
        });
        self.end_leases();
        self.lots = open(self.folder.path(), &name(self.opened), &self.disk, self.now);
    }

    fn end_leases(&mut self) {
        let now = self.now;
        self.known.retain(|lot| lot.expires > now);
    }

    fn check(&self) {
        for owner in OWNERS {
            let own = self.known.iter().filter(|lot| lot.owner == owner && lot.expires > self.now);
            let mut own: Vec<Lot> = own.map(|lot| self.expected(lot)).collect();
            own.sort_by(|a, b| a.path.cmp(&b.path));
            assert_eq!(self.lots.of(owner, self.now), own);
        }
    }
}

fn holds(folder: &str, path: &str) -> bool {
    folder.is_empty() || path == folder || path.starts_with(&format!("{folder}/"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn lots_match_the_model_through_crashes(events in prop::collection::vec(event(), 1..50)) {
        let mut model = Model::new();
        for event in events {
            model.happen(event);
            model.check();
        }
        // In the end, no space is reserved.
        model.writes.clear();
        model.now += LIMITS.lease;
        model.lots.tend(model.now).unwrap();
        prop_assert_eq!(model.disk.bytes(), 0);
    }
}

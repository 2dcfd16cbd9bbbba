//! Histories: what is at both ends, what is done, and what goes wrong.

use hither::OverwritePolicy;
use hither_testkit::mock_http::webdav::{
    ChangeFault, PiecesTaken, PlannedFault, Protocol, ReadFault, StatedSizes, StatedValidators,
    WebDavBehaviour, WebDavFault,
};
use proptest::prelude::*;
use proptest::sample::select;

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Copy,
    CopyTree,
    Sync,
    SyncDelete,
    Put,
    Remove,
    RemoveTree,
    Move,
    MoveTree,
}

impl Verb {
    pub(crate) const ALL: [Self; 9] = [
        Self::Copy,
        Self::CopyTree,
        Self::Sync,
        Self::SyncDelete,
        Self::Put,
        Self::Remove,
        Self::RemoveTree,
        Self::Move,
        Self::MoveTree,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Copy => "cp",
            Self::CopyTree => "cp -r",
            Self::Sync => "sync",
            Self::SyncDelete => "sync --delete",
            Self::Put => "put",
            Self::Remove => "rm",
            Self::RemoveTree => "rm -r",
            Self::Move => "mv",
            Self::MoveTree => "mv of a directory",
        }
    }

    pub(crate) fn has_source(self) -> bool {
        matches!(self, Self::Copy | Self::CopyTree | Self::Sync | Self::SyncDelete | Self::Put)
    }

    pub(crate) fn is_sync(self) -> bool {
        matches!(self, Self::Sync | Self::SyncDelete)
    }
}

/// One of the two ends, or a replica of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Local,
    Server(WebDavBehaviour, Vec<PlannedFault>),
    /// A federation of two such servers, of which the first has the faults.
    Federation(WebDavBehaviour, Vec<PlannedFault>),
}

impl End {
    pub(crate) fn behaviour(&self) -> WebDavBehaviour {
        match self {
            Self::Local => WebDavBehaviour {
                validators: StatedValidators::Dates,
                ..WebDavBehaviour::default()
            },
            Self::Server(behaviour, _) | Self::Federation(behaviour, _) => *behaviour,
        }
    }

    /// Returns true if files have the dates at which they were stored, by a right clock.
    pub(crate) fn has_dates(&self) -> bool {
        let WebDavBehaviour { validators, has_index, clock, .. } = self.behaviour();
        validators.has_dates() && !has_index && clock == 0
    }

    fn faults(&self) -> &[PlannedFault] {
        match self {
            Self::Local => &[],
            Self::Server(_, faults) | Self::Federation(_, faults) => faults,
        }
    }
}

/// A file that another place has under the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counterpart {
    Absent,
    Same,
    /// Other bytes, of this size, that are older.
    Other(usize),
}

/// A file of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePlan {
    pub(crate) path: String,
    pub(crate) size: usize,
    pub(crate) at_target: Counterpart,
    pub(crate) at_replica: Counterpart,
}

/// A second run of the same command, and what happens before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecondRun {
    /// The servers make no more mistakes.
    pub(crate) heals: bool,
    /// The first file of the source changes.
    pub(crate) changes_source: bool,
    /// Bytes of partial files are lost at the target.
    pub(crate) damages_partial: bool,
}

/// A history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) verb: Verb,
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) replica: Option<End>,
    pub(crate) files: Vec<FilePlan>,
    /// Paths of files that only the target has.
    pub(crate) extra: Vec<String>,
    pub(crate) existing: OverwritePolicy,
    pub(crate) has_checksum: bool,
    pub(crate) has_store: bool,
    pub(crate) second: Option<SecondRun>,
}

/// The size of files that replace others amid a job.
pub(crate) const REPLACED_BYTES: usize = 777;

/// Seconds by which clocks are wrong, for the most part not at all.
const CLOCKS: [i64; 10] = [0, 0, 0, 0, 0, 30, -30, 7_200, -7_200, 400_000_000];

/// Faults without an end.
const FOR_EVER: usize = 1_000;

pub(crate) fn strategy() -> impl Strategy<Value = History> {
    let files = prop::collection::vec(file(), 1..6);
    let extra = prop::collection::vec(path(), 0..3);
    let second = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(heals, changes_source, damages_partial)| SecondRun {
            heals,
            changes_source,
            damages_partial,
        },
    );
    let options = (existing(), any::<bool>(), any::<bool>(), prop::option::weighted(0.3, second));
    let ends = (end(), end(), prop::option::weighted(0.15, server()));
    let verb = select(Verb::ALL.to_vec());
    (verb, files, extra, ends, options).prop_map(|(verb, files, extra, ends, options)| {
        let (from, to, replica) = ends;
        let (existing, has_checksum, has_store, second) = options;
        let mut history = History {
            verb,
            from,
            to,
            replica,
            files,
            extra,
            existing,
            has_checksum,
            has_store,
            second,
        };
        history.settle();
        history
    })
}

impl History {
    /// The ends, and the replica if there is one.
    pub(crate) fn ends(&self) -> impl Iterator<Item = &End> {
        [&self.from, &self.to].into_iter().chain(&self.replica)
    }

    /// Returns true if a client waits for a timeout: a server stops sending, or a federation says
    /// that it is busy as long as an endpoint does not answer as it should.
    pub(crate) fn is_slow(&self) -> bool {
        self.ends().any(|end| {
            matches!(end, End::Federation(..)) || end.faults().iter().any(|it| is_silent(&it.fault))
        })
    }

    /// Takes out what contradicts itself, and faults that nobody can see.
    fn settle(&mut self) {
        let server = || End::Server(WebDavBehaviour::default(), Vec::new());
        let mut has_store = false;
        for end in [&mut self.from, &mut self.to].into_iter().chain(&mut self.replica) {
            settle_protocol(end, &mut has_store);
        }
        if !self.verb.has_source() {
            self.from = End::Local;
            self.second = None;
        }
        if self.from == End::Local && self.to == End::Local {
            self.to = server();
        }
        if self.verb == Verb::Put {
            self.from = End::Local;
            self.has_checksum = false;
            self.second = None;
            if self.to == End::Local {
                self.to = server();
            }
        }
        if matches!(self.from, End::Federation(..))
            && let Some(second) = &mut self.second
        {
            // It may show for a while what was there.
            second.changes_source = false;
        }
        if self.from == End::Local || self.verb.is_sync() || !self.verb.has_source() {
            self.replica = None;
        }
        let mut seen = std::collections::BTreeSet::new();
        self.files.retain(|file| seen.insert(file.path.clone()));
        self.extra.retain(|path| seen.insert(path.clone()));
        let has_checksum = self.has_checksum;
        // Both ends of a comparison may say that a file is empty: then it is not asked for.
        let is_empty = |it: &FilePlan| it.size == 0 || it.at_target == Counterpart::Other(0);
        let compares_empty = self.verb.is_sync() && self.files.iter().any(is_empty);
        let is_upload = self.verb != Verb::Put;
        for (is_source, end) in [(true, &mut self.from), (false, &mut self.to)]
            .into_iter()
            .chain(self.replica.iter_mut().map(|it| (false, it)))
        {
            let (End::Server(behaviour, faults) | End::Federation(behaviour, faults)) = end else {
                continue;
            };
            faults.retain(|it| match &it.fault {
                // Another client may do what it likes at a target.
                WebDavFault::Read(ReadFault::Replaced(_)) => is_source,
                WebDavFault::Read(ReadFault::ZeroSizes) => !compares_empty,
                // Only a checksum shows these.
                WebDavFault::Read(ReadFault::Damaged | ReadFault::OtherRange) => {
                    is_source && has_checksum && behaviour.has_checksums
                }
                WebDavFault::Change(ChangeFault::LostAndMadeAgain) => {
                    matches!(it.method, "MOVE" | "DELETE")
                }
                WebDavFault::Change(ChangeFault::Damaged) => has_checksum && is_upload,
                // The server's own word, by the status of the method, is believed: nothing but the
                // size of a whole file says more, so a piece may be missing.
                WebDavFault::Change(ChangeFault::Claim(204, ..)) => {
                    let is_piece = it.method == "PUT" && behaviour.pieces == PiecesTaken::AsPieces;
                    !is_piece && !matches!(it.method, "MOVE" | "DELETE")
                }
                _ => true,
            });
        }
    }
}

/// Takes out what a server does not have in its protocol. A client has one object store.
fn settle_protocol(end: &mut End, has_store: &mut bool) {
    if let End::Federation(behaviour, _) = end {
        (behaviour.protocol, behaviour.ignores_case) = (Protocol::WebDav, false);
        // A federation does not tell that an endpoint hides names (docs/semantics.md).
        behaviour.has_index = false;
    }
    let End::Server(behaviour, faults) = end else { return };
    if behaviour.protocol == Protocol::S3 && std::mem::replace(has_store, true) {
        behaviour.protocol = Protocol::WebDav;
    }
    let validators = match behaviour.protocol {
        Protocol::WebDav => return,
        Protocol::S3 => StatedValidators::TagsAndDates,
        Protocol::Xrootd => StatedValidators::Dates,
    };
    let is_store = behaviour.protocol == Protocol::S3;
    *behaviour = WebDavBehaviour {
        protocol: behaviour.protocol,
        validators,
        makes_parents: true,
        has_checksums: behaviour.has_checksums && !is_store,
        clock: behaviour.clock,
        ..WebDavBehaviour::default()
    };
    faults.retain(|it| match &it.fault {
        WebDavFault::Read(
            ReadFault::Refuses(_) | ReadFault::Insufficient | ReadFault::CutListing,
        ) => false,
        WebDavFault::Read(
            ReadFault::Omits | ReadFault::NoSizes | ReadFault::WrongSizes(_) | ReadFault::ZeroSizes,
        ) => !is_store,
        WebDavFault::Read(
            ReadFault::Login(_)
            | ReadFault::Page
            | ReadFault::NoLength
            | ReadFault::NoLengthCut
            | ReadFault::Whole
            | ReadFault::Coded,
        )
        | WebDavFault::Change(
            ChangeFault::Login(_) | ChangeFault::Claim(..) | ChangeFault::Moved(_),
        ) => is_store,
        _ => true,
    });
}

fn is_silent(fault: &WebDavFault) -> bool {
    matches!(
        fault,
        WebDavFault::Read(ReadFault::Silent | ReadFault::Stalled)
            | WebDavFault::Change(ChangeFault::Silent | ChangeFault::LostInSilence)
    )
}

fn existing() -> impl Strategy<Value = OverwritePolicy> {
    prop_oneof![
        4 => Just(OverwritePolicy::Replace),
        1 => Just(OverwritePolicy::Keep),
        1 => Just(OverwritePolicy::Update),
        1 => Just(OverwritePolicy::Refuse),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let folder = select(vec!["", "s/", "s/t/"]);
    let name = select(vec!["a", "b.dat", "A", "z", ".zarray", "x y", "c:d"]);
    (folder, name).prop_map(|(folder, name)| format!("{folder}{name}"))
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        20 => 1..3_000_usize,
        3 => Just(0),
        5 => 3_000..300_000_usize,
        2 => 1_100_000..1_400_000_usize,
    ]
}

fn file() -> impl Strategy<Value = FilePlan> {
    (path(), size(), counterpart(), counterpart()).prop_map(
        |(path, size, at_target, at_replica)| FilePlan { path, size, at_target, at_replica },
    )
}

fn counterpart() -> impl Strategy<Value = Counterpart> {
    prop_oneof![
        2 => Just(Counterpart::Absent),
        1 => Just(Counterpart::Same),
        2 => size().prop_map(Counterpart::Other),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![8 => Just(End::Local), 12 => server(), 1 => federation()]
}

fn server() -> impl Strategy<Value = End> {
    let faults = prop::collection::vec(fault(), 0..6);
    (behaviour(), faults).prop_map(|(behaviour, faults)| End::Server(behaviour, faults))
}

fn federation() -> impl Strategy<Value = End> {
    let faults = prop::collection::vec(fault(), 0..6);
    (behaviour(), faults).prop_map(|(behaviour, faults)| End::Federation(behaviour, faults))
}

fn behaviour() -> impl Strategy<Value = WebDavBehaviour> {
    let sizes = prop_oneof![
        4 => Just(StatedSizes::Always),
        1 => Just(StatedSizes::ByGet),
        1 => Just(StatedSizes::Never),
    ];
    let validators = prop_oneof![
        2 => Just(StatedValidators::TagsAndDates),
        1 => Just(StatedValidators::Tags),
        1 => Just(StatedValidators::WeakTags),
        1 => Just(StatedValidators::WeakTagsAndDates),
        1 => Just(StatedValidators::Dates),
        1 => Just(StatedValidators::Nothing),
    ];
    let pieces = select(vec![PiecesTaken::AsPieces, PiecesTaken::Never, PiecesTaken::AsFiles]);
    let refuses_moves = prop::option::weighted(0.2, select(vec![403, 404, 405, 501]));
    let protocol = prop_oneof![7 => Just(Protocol::WebDav), 2 => Just(Protocol::S3), 2 => Just(Protocol::Xrootd)];
    let rest = (
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        any::<bool>(),
        any::<bool>(),
        select(CLOCKS.to_vec()),
    );
    (protocol, sizes, validators, pieces, refuses_moves, rest).prop_map(
        |(protocol, sizes, validators, pieces, refuses_moves, rest)| {
            let (ignores_case, has_index, makes_parents, has_checksums, keeps_times, clock) = rest;
            WebDavBehaviour {
                protocol,
                sizes,
                validators,
                pieces,
                refuses_moves,
                ignores_overwrite: false,
                ignores_case,
                has_index,
                makes_parents,
                has_checksums,
                keeps_times,
                clock,
            }
        },
    )
}

fn fault() -> impl Strategy<Value = PlannedFault> {
    let changes = (select(vec!["PUT", "PUT", "MOVE", "DELETE", "MKCOL"]), change())
        .prop_map(|(method, fault)| (method, WebDavFault::Change(fault)));
    let reads = (select(vec!["GET", "HEAD", "PROPFIND"]), read())
        .prop_map(|(method, fault)| (method, WebDavFault::Read(fault)));
    let methods = select(vec!["GET", "HEAD", "PROPFIND", "PUT", "MOVE", "DELETE", "MKCOL"]);
    let status = select(vec![
        400, 401, 403, 404, 405, 408, 409, 412, 423, 425, 429, 500, 501, 502, 503, 504, 507,
    ]);
    let statuses = (methods, status).prop_map(|(method, it)| (method, WebDavFault::Status(it)));
    let planned = prop_oneof![2 => changes, 3 => reads, 2 => statuses];
    let nth = prop_oneof![3 => 0..3_usize, 1 => 3..12_usize];
    let times = select(vec![1, 2, 5, FOR_EVER]);
    (planned, nth, times).prop_map(|((method, fault), nth, times)| {
        // The client asks as long as it may, or waits for a timeout.
        let times = match &fault {
            WebDavFault::Status(408 | 425 | 429 | 503) => times.min(5),
            fault if is_silent(fault) => times.min(2),
            _ => times,
        };
        PlannedFault { method, nth, times, fault }
    })
}

fn change() -> impl Strategy<Value = ChangeFault> {
    let page = hither_testkit::mock_http::webdav::LOGIN_PAGE;
    select(vec![
        ChangeFault::Login(302),
        ChangeFault::Login(303),
        ChangeFault::Login(307),
        ChangeFault::Claim(200, "text/html", page),
        ChangeFault::Claim(201, "text/html", page),
        ChangeFault::Claim(202, "text/plain", "accepted"),
        ChangeFault::Claim(204, "text/plain", ""),
        ChangeFault::Claim(207, "application/xml", "<multistatus xmlns='DAV:'/>"),
        ChangeFault::Done(200, "text/plain", "done"),
        ChangeFault::Done(202, "text/plain", "accepted"),
        ChangeFault::Done(500, "text/plain", "late"),
        ChangeFault::Done(504, "text/plain", "late"),
        ChangeFault::Moved(302),
        ChangeFault::Moved(307),
        ChangeFault::Lost,
        ChangeFault::Dropped,
        ChangeFault::Silent,
        ChangeFault::LostInSilence,
        ChangeFault::LostAndMadeAgain,
        ChangeFault::Half,
        ChangeFault::HalfLost,
        ChangeFault::Damaged,
    ])
}

fn read() -> impl Strategy<Value = ReadFault> {
    select(vec![
        ReadFault::Login(302),
        ReadFault::Login(303),
        ReadFault::Page,
        ReadFault::Dropped,
        ReadFault::Silent,
        ReadFault::Stalled,
        ReadFault::Cut,
        ReadFault::NoLength,
        ReadFault::NoLengthCut,
        ReadFault::Less,
        ReadFault::OtherRange,
        ReadFault::Whole,
        ReadFault::Coded,
        ReadFault::Damaged,
        ReadFault::Replaced(super::ends::content(500, REPLACED_BYTES)),
        ReadFault::Omits,
        ReadFault::Refuses(403),
        ReadFault::Refuses(404),
        ReadFault::Insufficient,
        ReadFault::NoSizes,
        ReadFault::WrongSizes(7),
        ReadFault::ZeroSizes,
        ReadFault::CutListing,
    ])
}

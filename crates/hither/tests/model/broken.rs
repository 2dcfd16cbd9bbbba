//! Histories that have broken the model once.

use crate::history::{Counterpart, End, FilePlan, History, SecondRun, Verb};
use hither::OverwritePolicy;
use hither_testkit::mock_http::webdav::{
    ChangeFault, PiecesTaken, PlannedFault, Protocol, ReadFault, StatedSizes, StatedValidators,
    WebDavBehaviour, WebDavFault,
};

pub(crate) const HISTORIES: [fn() -> History; 11] = [
    mixed_replicas,
    mixed_replicas_of_one_file,
    damaged_in_place,
    removed_in_place,
    believed_empty,
    not_compared,
    believed_removed,
    of_another_size,
    refused_in_a_federation,
    missing_in_a_federation,
    cut_page,
];

/// Bytes of a replica of unknown size came beside those of another one.
fn mixed_replicas() -> History {
    History {
        verb: Verb::CopyTree,
        from: End::Server(
            WebDavBehaviour {
                sizes: StatedSizes::Never,
                validators: StatedValidators::TagsAndDates,
                pieces: PiecesTaken::AsPieces,
                ..WebDavBehaviour::default()
            },
            vec![fault("GET", 2, 2, WebDavFault::Read(ReadFault::Login(303)))],
        ),
        replica: Some(End::Server(
            WebDavBehaviour {
                pieces: PiecesTaken::AsFiles,
                refuses_moves: Some(404),
                keeps_times: true,
                ..WebDavBehaviour::default()
            },
            vec![fault("GET", 4, 5, WebDavFault::Read(ReadFault::NoLength))],
        )),
        files: vec![
            file("x y", 2509, Counterpart::Absent, Counterpart::Other(1180223)),
            file("c:d", 0, Counterpart::Same, Counterpart::Other(2777)),
            file("s/z", 51290, Counterpart::Other(2361), Counterpart::Other(1844)),
        ],
        has_checksum: true,
        ..plain()
    }
}

/// The same, in a copy of one file.
fn mixed_replicas_of_one_file() -> History {
    History {
        verb: Verb::Copy,
        from: End::Server(
            WebDavBehaviour {
                validators: StatedValidators::TagsAndDates,
                pieces: PiecesTaken::AsFiles,
                refuses_moves: Some(405),
                has_index: true,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("PROPFIND", 0, 2, WebDavFault::Read(ReadFault::Refuses(403))),
                fault("PROPFIND", 1, 2, WebDavFault::Read(ReadFault::Cut)),
                fault("GET", 0, 5, WebDavFault::Status(504)),
                fault("PROPFIND", 0, 1, WebDavFault::Read(ReadFault::Page)),
            ],
        ),
        replica: Some(End::Server(
            WebDavBehaviour {
                sizes: StatedSizes::Never,
                validators: StatedValidators::TagsAndDates,
                pieces: PiecesTaken::AsPieces,
                keeps_times: true,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("GET", 0, 2, WebDavFault::Read(ReadFault::WrongSizes(7))),
                fault("HEAD", 5, 5, WebDavFault::Read(ReadFault::Login(302))),
            ],
        )),
        files: vec![file(".zarray", 1642, Counterpart::Other(1356), Counterpart::Other(270199))],
        extra: vec!["s/t/.zarray".to_owned()],
        second: Some(SecondRun { heals: true, changes_source: true, damages_partial: false }),
        ..plain()
    }
}

/// A file was damaged when it was put in place.
fn damaged_in_place() -> History {
    History {
        verb: Verb::Sync,
        from: End::Server(
            WebDavBehaviour {
                validators: StatedValidators::Nothing,
                pieces: PiecesTaken::AsFiles,
                refuses_moves: Some(501),
                has_index: true,
                keeps_times: true,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("GET", 0, 1000, WebDavFault::Read(ReadFault::CutListing)),
                fault("GET", 0, 1000, WebDavFault::Read(ReadFault::Dropped)),
            ],
        ),
        to: End::Server(
            WebDavBehaviour {
                validators: StatedValidators::TagsAndDates,
                refuses_moves: Some(405),
                keeps_times: true,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("MOVE", 1, 1, WebDavFault::Status(403)),
                fault("HEAD", 0, 1, WebDavFault::Read(ReadFault::Omits)),
                fault("PUT", 2, 1000, WebDavFault::Change(ChangeFault::Damaged)),
                fault("PROPFIND", 8, 5, WebDavFault::Read(ReadFault::Refuses(404))),
            ],
        ),
        files: vec![
            file("s/a", 1535, Counterpart::Other(48715), Counterpart::Other(1683)),
            file("s/t/b.dat", 1409, Counterpart::Absent, Counterpart::Other(1899)),
        ],
        extra: vec!["a".to_owned()],
        existing: OverwritePolicy::Update,
        has_checksum: true,
        has_store: true,
        ..plain()
    }
}

/// A file was removed there because the server told another size.
fn removed_in_place() -> History {
    History {
        verb: Verb::SyncDelete,
        to: End::Server(
            WebDavBehaviour {
                validators: StatedValidators::TagsAndDates,
                pieces: PiecesTaken::AsFiles,
                refuses_moves: Some(405),
                has_checksums: true,
                keeps_times: true,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("PROPFIND", 10, 1000, WebDavFault::Read(ReadFault::WrongSizes(7))),
                fault("GET", 0, 1, WebDavFault::Read(ReadFault::Refuses(404))),
            ],
        ),
        files: vec![
            file("s/t/.zarray", 212187, Counterpart::Same, Counterpart::Same),
            file("s/t/b.dat", 0, Counterpart::Absent, Counterpart::Absent),
            file("s/t/z", 1572, Counterpart::Absent, Counterpart::Same),
            file("z", 46847, Counterpart::Same, Counterpart::Absent),
            file("s/x y", 1377120, Counterpart::Other(838), Counterpart::Same),
        ],
        existing: OverwritePolicy::Refuse,
        has_checksum: true,
        second: Some(SecondRun { heals: false, changes_source: false, damages_partial: true }),
        ..plain()
    }
}

/// A file was taken for empty because its listing and a refusal said so.
fn believed_empty() -> History {
    History {
        verb: Verb::Sync,
        from: End::Server(
            WebDavBehaviour {
                validators: StatedValidators::TagsAndDates,
                pieces: PiecesTaken::AsPieces,
                refuses_moves: Some(501),
                keeps_times: true,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("HEAD", 2, 1000, WebDavFault::Read(ReadFault::NoSizes)),
                fault("GET", 0, 2, WebDavFault::Status(400)),
                fault("PROPFIND", 1, 5, WebDavFault::Read(ReadFault::ZeroSizes)),
            ],
        ),
        to: End::Server(
            WebDavBehaviour {
                pieces: PiecesTaken::AsFiles,
                has_checksums: true,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("PUT", 2, 1, WebDavFault::Status(409)),
                fault("MKCOL", 1, 1000, WebDavFault::Change(ChangeFault::HalfLost)),
                fault("PROPFIND", 7, 5, WebDavFault::Read(ReadFault::Omits)),
                fault("PUT", 0, 1, WebDavFault::Status(502)),
            ],
        ),
        files: vec![
            file("s/A", 1608, Counterpart::Other(2081), Counterpart::Other(280)),
            file("a", 1932, Counterpart::Absent, Counterpart::Absent),
        ],
        extra: vec!["s/.zarray".to_owned()],
        existing: OverwritePolicy::Update,
        ..plain()
    }
}

/// A copy between servers said that it was compared with the source.
fn not_compared() -> History {
    History {
        verb: Verb::SyncDelete,
        from: End::Server(
            WebDavBehaviour {
                validators: StatedValidators::Nothing,
                pieces: PiecesTaken::AsPieces,
                refuses_moves: Some(404),
                makes_parents: true,
                has_checksums: true,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("PROPFIND", 2, 5, WebDavFault::Read(ReadFault::Omits)),
                fault("HEAD", 7, 1, WebDavFault::Read(ReadFault::Login(303))),
                fault("HEAD", 0, 1, WebDavFault::Status(401)),
                fault("GET", 0, 2, WebDavFault::Read(ReadFault::Damaged)),
            ],
        ),
        to: End::Server(
            WebDavBehaviour {
                validators: StatedValidators::Nothing,
                pieces: PiecesTaken::AsFiles,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("PROPFIND", 10, 5, WebDavFault::Read(ReadFault::Insufficient)),
                fault("HEAD", 8, 5, WebDavFault::Read(ReadFault::Login(303))),
                fault("GET", 1, 1, WebDavFault::Read(ReadFault::CutListing)),
            ],
        ),
        files: vec![
            file("s/t/A", 1211309, Counterpart::Other(2489), Counterpart::Other(0)),
            file(".zarray", 253936, Counterpart::Same, Counterpart::Absent),
            file("s/t/z", 1534, Counterpart::Other(1137), Counterpart::Other(2918)),
            file("s/z", 2680, Counterpart::Same, Counterpart::Other(1319436)),
            file("s/t/b.dat", 1729, Counterpart::Other(2637), Counterpart::Absent),
        ],
        existing: OverwritePolicy::Keep,
        has_checksum: true,
        has_store: true,
        second: Some(SecondRun { heals: true, changes_source: false, damages_partial: true }),
        ..plain()
    }
}

/// A login page was taken for the object, and its own entry for that of another client.
fn believed_removed() -> History {
    History {
        verb: Verb::Remove,
        to: End::Server(
            WebDavBehaviour {
                protocol: Protocol::S3,
                validators: StatedValidators::TagsAndDates,
                makes_parents: true,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("DELETE", 0, 1, WebDavFault::Change(ChangeFault::Login(307))),
                fault("HEAD", 0, 1, WebDavFault::Read(ReadFault::Login(302))),
            ],
        ),
        files: vec![file("a", 1, Counterpart::Absent, Counterpart::Absent)],
        ..plain()
    }
}

/// A file that was not removed was taken for another client's: a listing had its size wrong.
fn of_another_size() -> History {
    History {
        verb: Verb::Remove,
        to: End::Server(
            WebDavBehaviour {
                validators: StatedValidators::TagsAndDates,
                pieces: PiecesTaken::AsPieces,
                ..WebDavBehaviour::default()
            },
            vec![
                fault("DELETE", 0, 1, WebDavFault::Change(ChangeFault::Dropped)),
                fault("PROPFIND", 1, 1, WebDavFault::Read(ReadFault::WrongSizes(7))),
            ],
        ),
        files: vec![file("a", 1, Counterpart::Absent, Counterpart::Absent)],
        ..plain()
    }
}

/// A name that an endpoint refuses to describe was missing in the federation.
fn refused_in_a_federation() -> History {
    History {
        verb: Verb::Sync,
        from: End::Federation(
            WebDavBehaviour {
                validators: StatedValidators::TagsAndDates,
                pieces: PiecesTaken::AsPieces,
                ..WebDavBehaviour::default()
            },
            vec![fault("PROPFIND", 0, 2, WebDavFault::Read(ReadFault::Refuses(403)))],
        ),
        files: vec![file("s/a", 1, Counterpart::Absent, Counterpart::Absent)],
        ..plain()
    }
}

/// A directory was moved at one endpoint while the other one had lost it.
fn missing_in_a_federation() -> History {
    History {
        verb: Verb::MoveTree,
        to: End::Federation(
            WebDavBehaviour {
                validators: StatedValidators::TagsAndDates,
                pieces: PiecesTaken::AsPieces,
                ..WebDavBehaviour::default()
            },
            vec![fault("PROPFIND", 1, 2, WebDavFault::Status(404))],
        ),
        files: vec![file("s/a", 1, Counterpart::Absent, Counterpart::Absent)],
        extra: vec!["s/t/a".to_owned()],
        ..plain()
    }
}

/// A page that was kept as the file was cut to the size of the file.
fn cut_page() -> History {
    History {
        verb: Verb::Copy,
        from: End::Server(
            WebDavBehaviour {
                validators: StatedValidators::TagsAndDates,
                pieces: PiecesTaken::AsPieces,
                ..WebDavBehaviour::default()
            },
            vec![fault("GET", 0, 1000, WebDavFault::Read(ReadFault::Page))],
        ),
        to: End::Server(
            WebDavBehaviour {
                validators: StatedValidators::Tags,
                makes_parents: true,
                clock: 30,
                ..WebDavBehaviour::default()
            },
            Vec::new(),
        ),
        files: vec![file("b.dat", 0, Counterpart::Absent, Counterpart::Absent)],
        existing: OverwritePolicy::Update,
        has_store: true,
        second: Some(SecondRun { heals: false, changes_source: true, damages_partial: false }),
        ..plain()
    }
}

/// A copy of nothing between two folders.
fn plain() -> History {
    History {
        verb: Verb::Copy,
        from: End::Local,
        to: End::Local,
        replica: None,
        files: Vec::new(),
        extra: Vec::new(),
        existing: OverwritePolicy::Replace,
        has_checksum: false,
        has_store: false,
        second: None,
    }
}

fn file(path: &str, size: usize, at_target: Counterpart, at_replica: Counterpart) -> FilePlan {
    FilePlan { path: path.to_owned(), size, at_target, at_replica }
}

fn fault(method: &'static str, nth: usize, times: usize, fault: WebDavFault) -> PlannedFault {
    PlannedFault { method, nth, times, fault }
}

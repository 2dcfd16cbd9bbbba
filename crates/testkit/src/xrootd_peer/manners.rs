//! Every way of going wrong that a server, a manager or a path is known to have, or could have, and what may come of it.

use super::When::{self, Always, Nth};
use super::fault::{Fault, Point, Step};
use hither_core::ErrorKind;
use hither_xrd::wire::{ErrorCode, Redirect, server};

/// Which reads a manner makes a difference to; all others come out right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// All.
    Everything,
    /// Those of many ranges at a time.
    Vectors,
    /// Those of one range at a time.
    Runs,
    /// Those whose answers say where they belong: of many ranges, or with checksums.
    Placed,
    /// Those with checksums of pages.
    Pages,
    /// Those that are not.
    Unpaged,
}

/// A way of going wrong.
#[derive(Debug, Clone)]
pub struct Manner {
    /// What the server does.
    pub name: String,
    /// How a [`XrootdPeer`](super::XrootdPeer) does it.
    pub faults: Vec<(Step, When, Fault)>,
    /// What it makes a difference to.
    pub of: Of,
    /// What comes of it: the right bytes, or an error of this kind.
    pub outcome: Result<(), ErrorKind>,
}

/// All of them.
#[must_use]
pub fn manners() -> Vec<Manner> {
    let mut all = Vec::new();
    for some in [connections(), logins(), opens(), reads(), data()] {
        all.extend(some);
    }
    all
}

fn manner(faults: &[(Step, When, Fault)], of: Of, outcome: Result<(), ErrorKind>) -> Manner {
    Manner { name: format!("{faults:?}"), faults: faults.to_vec(), of, outcome }
}

fn one(step: Step, when: When, fault: Fault, outcome: Result<(), ErrorKind>) -> Manner {
    manner(&[(step, when, fault)], Of::Everything, outcome)
}

/// What befalls connections.
fn connections() -> Vec<Manner> {
    let at = Step::Connection;
    let points = [
        Point::ToServer(0),
        Point::ToServer(30),
        Point::ToServer(100),
        Point::ToClient(0),
        Point::ToClient(10),
        Point::ToClient(60),
        Point::ToClient(130),
        Point::Answered(0),
        Point::Answered(1),
        Point::Answered(2),
        Point::Answered(3),
    ];
    let mut all = Vec::new();
    for point in points {
        for fault in [Fault::Close(point), Fault::Reset(point), Fault::Stall(point)] {
            all.push(one(at, Nth(0), fault, Ok(())));
        }
    }
    for point in [Point::ToServer(0), Point::ToClient(0), Point::ToClient(60)] {
        all.push(one(at, Always, Fault::Close(point), Err(ErrorKind::Unavailable)));
        all.push(one(at, Always, Fault::Reset(point), Err(ErrorKind::Unavailable)));
        all.push(one(at, Always, Fault::Stall(point), Err(ErrorKind::Timeout)));
    }
    // Each connection brings a little.
    all.push(one(at, Always, Fault::Close(Point::Answered(6)), Ok(())));
    for banner in
        [&b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..], &[0; 64], b"220 mail\r\n"]
    {
        let outcome = if banner.len() < 16 { ErrorKind::Timeout } else { ErrorKind::Protocol };
        all.push(one(at, Always, Fault::Banner(banner), Err(outcome)));
    }
    all
}

/// What servers say before anything is opened.
fn logins() -> Vec<Manner> {
    let refused = |step, code, kind| one(step, Always, Fault::Refused(code), Err(kind));
    vec![
        // What it says there is not needed.
        one(Step::Protocol, Always, Fault::Unanswered, Ok(())),
        refused(Step::Protocol, ErrorCode::SERVER_ERROR, ErrorKind::Unavailable),
        one(Step::Login, Nth(0), Fault::Wait(0), Ok(())),
        one(Step::Login, Nth(0), Fault::Later(1), Ok(())),
        one(Step::Login, Always, Fault::Proof("unix"), Ok(())),
        one(Step::Login, Always, Fault::Proof("krb5"), Err(ErrorKind::Unauthenticated)),
        refused(Step::Login, ErrorCode::AUTH_FAILED, ErrorKind::Unauthenticated),
        refused(Step::Login, ErrorCode::NOT_AUTHORIZED, ErrorKind::PermissionDenied),
        one(Step::Login, Always, Fault::ToItself, Err(ErrorKind::Protocol)),
        one(Step::Login, Always, Fault::Notice, Ok(())),
        one(Step::Query, Always, Fault::Unanswered, Ok(())),
        one(Step::Query, Always, Fault::Refused(ErrorCode::UNSUPPORTED), Ok(())),
        // A server that does not know the words gives them back; dCache names limits far beyond what it takes.
        one(Step::Query, Always, Fault::Text("readv_ior_max\nreadv_iov_max\n"), Ok(())),
        one(Step::Query, Always, Fault::Text("8388592\n178956970\n"), Ok(())),
        one(Step::Query, Always, Fault::Text("4096\n3\n"), Ok(())),
        one(Step::Query, Always, Fault::Text("0\n0\n"), Ok(())),
        one(Step::Query, Always, Fault::Text("-1\n\u{fffd}\n"), Ok(())),
        // As servers before version 5.
        manner(
            &[(Step::Protocol, Always, Fault::Flags(server::IS_SERVER))],
            Of::Pages,
            Err(ErrorKind::Unsupported),
        ),
    ]
}

/// What becomes of opens.
fn opens() -> Vec<Manner> {
    let at = Step::Open;
    let nobody = || Fault::Elsewhere(Redirect::to("127.0.0.1", 1));
    let mut all = vec![
        one(at, Nth(0), Fault::Wait(0), Ok(())),
        one(at, Always, Fault::Wait(3600), Err(ErrorKind::Unavailable)),
        one(at, Nth(0), Fault::Later(1), Ok(())),
        one(at, Always, Fault::Later(1), Ok(())),
        one(at, Nth(0), Fault::LaterNever(0), Ok(())),
        one(at, Nth(0), Fault::Unanswered, Ok(())),
        one(at, Always, Fault::Unanswered, Err(ErrorKind::Timeout)),
        one(at, Always, Fault::ToItself, Err(ErrorKind::Protocol)),
        one(at, Nth(0), Fault::ToItself, Ok(())),
        one(at, Always, nobody(), Err(ErrorKind::Unavailable)),
        one(at, Nth(0), nobody(), Ok(())),
        one(at, Always, Fault::Handles(1), Ok(())),
        one(at, Always, Fault::Handles(200), Ok(())),
        one(at, Always, Fault::NoStatus, Ok(())),
        one(at, Nth(0), Fault::Twice, Ok(())),
        one(at, Always, Fault::Twice, Err(ErrorKind::Protocol)),
        one(at, Nth(0), Fault::WrongStream, Ok(())),
        one(at, Nth(0), Fault::Status(4999), Ok(())),
        one(at, Nth(0), Fault::Length(u32::MAX), Ok(())),
        one(at, Nth(0), Fault::Length(1000), Ok(())),
        one(at, Nth(0), Fault::Length(2), Ok(())),
        one(at, Always, Fault::Notice, Ok(())),
    ];
    for (code, kind) in [
        (ErrorCode::NOT_FOUND, ErrorKind::NotFound),
        (ErrorCode::NOT_AUTHORIZED, ErrorKind::PermissionDenied),
        (ErrorCode::IS_DIRECTORY, ErrorKind::Invalid),
        (ErrorCode::OVERLOADED, ErrorKind::Unavailable),
        (ErrorCode::FILE_LOCKED, ErrorKind::Unavailable),
        (ErrorCode::IO_ERROR, ErrorKind::Unavailable),
        (ErrorCode::FS_ERROR, ErrorKind::Unavailable),
        (ErrorCode::SERVER_ERROR, ErrorKind::Unavailable),
        (ErrorCode::NO_SERVER, ErrorKind::Unavailable),
        (ErrorCode(4242), ErrorKind::Unavailable),
    ] {
        all.push(one(at, Always, Fault::Refused(code), Err(kind)));
    }
    for code in [ErrorCode::OVERLOADED, ErrorCode::FILE_LOCKED, ErrorCode::IN_PROGRESS] {
        all.push(one(at, Nth(0), Fault::Refused(code), Ok(())));
    }
    all
}

/// What becomes of reads.
fn reads() -> Vec<Manner> {
    let at = Step::Read;
    let mut all = vec![
        one(at, Nth(0), Fault::Wait(0), Ok(())),
        one(at, Nth(0), Fault::Unanswered, Ok(())),
        one(at, Always, Fault::Unanswered, Err(ErrorKind::Timeout)),
        one(at, Nth(0), Fault::LaterNever(0), Ok(())),
        one(at, Nth(0), Fault::ToItself, Ok(())),
        one(at, Always, Fault::ToItself, Err(ErrorKind::Protocol)),
        one(at, Always, Fault::Notice, Ok(())),
        one(at, Always, Fault::Twice, Ok(())),
        one(Step::Request, Always, Fault::Notice, Ok(())),
    ];
    for (code, kind) in [
        (ErrorCode::IO_ERROR, ErrorKind::Unavailable),
        (ErrorCode::FS_ERROR, ErrorKind::Unavailable),
        (ErrorCode::CHECKSUM, ErrorKind::Corrupt),
        (ErrorCode::NOT_AUTHORIZED, ErrorKind::PermissionDenied),
        (ErrorCode::OVERLOADED, ErrorKind::Unavailable),
        (ErrorCode::FILE_NOT_OPEN, ErrorKind::Unavailable),
        (ErrorCode::INVALID_REQUEST, ErrorKind::Protocol),
        (ErrorCode(77), ErrorKind::Protocol),
    ] {
        all.push(one(at, Always, Fault::Refused(code), Err(kind)));
    }
    for code in [
        ErrorCode::OVERLOADED,
        ErrorCode::FILE_LOCKED,
        ErrorCode::FILE_NOT_OPEN,
        ErrorCode::INVALID_REQUEST,
        ErrorCode(77),
    ] {
        all.push(one(at, Nth(0), Fault::Refused(code), Ok(())));
    }
    for fault in [Fault::WrongStream, Fault::Status(4999), Fault::Length(u32::MAX)] {
        all.push(one(at, Nth(0), fault.clone(), Ok(())));
        all.push(one(at, Always, fault, Err(ErrorKind::Protocol)));
    }
    all
}

/// What is wrong with data.
fn data() -> Vec<Manner> {
    let at = Step::Read;
    let of = |of, when, fault, outcome| manner(&[(at, when, fault)], of, outcome);
    let wrong = Err(ErrorKind::Protocol);
    let mut all = vec![
        one(at, Nth(0), Fault::Short(1), Ok(())),
        one(at, Nth(0), Fault::Short(usize::MAX), Ok(())),
        one(at, Always, Fault::Short(usize::MAX), wrong),
        of(Of::Unpaged, Nth(0), Fault::Frames(1), Ok(())),
        of(Of::Unpaged, Always, Fault::Frames(19), Ok(())),
        of(Of::Unpaged, Always, Fault::Empty(3), Ok(())),
        of(Of::Unpaged, Always, Fault::Empty(100_000), wrong),
        one(at, Always, Fault::NeverLast, Ok(())),
        one(at, Nth(0), Fault::Long(1), Ok(())),
        one(at, Nth(0), Fault::Long(100_000), Ok(())),
        // Behind the last part of a vector it is of no consequence.
        of(Of::Runs, Always, Fault::Long(1), wrong),
        of(Of::Runs, Always, Fault::Long(100_000), wrong),
        of(Of::Vectors, Always, Fault::Reversed, Ok(())),
        of(Of::Vectors, Nth(0), Fault::OtherFile, Ok(())),
        of(Of::Vectors, Always, Fault::OtherFile, wrong),
        of(Of::Vectors, Always, Fault::LeftOut, Ok(())),
        of(Of::Vectors, Always, Fault::Repeated, Ok(())),
        of(Of::Pages, Always, Fault::Damaged { every: 1, again: false }, Ok(())),
        of(Of::Pages, Always, Fault::Damaged { every: 3, again: false }, Ok(())),
        of(Of::Pages, Nth(0), Fault::Damaged { every: 1, again: true }, Ok(())),
        of(Of::Pages, Always, Fault::Damaged { every: 1, again: true }, Err(ErrorKind::Corrupt)),
    ];
    for bytes in [1, 4096, 1 << 40] {
        all.push(one(at, Nth(0), Fault::Shifted(bytes), Ok(())));
        all.push(of(Of::Placed, Always, Fault::Shifted(bytes), wrong));
    }
    all
}

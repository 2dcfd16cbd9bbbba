//! Server behaviours: failures of a server, a manager or a network, and their expected results.

use super::FaultTrigger::{self, Always, Nth};
use super::fault::{BreakPoint, Fault, FaultStage};
use hither_core::ErrorKind;
use hither_xrd::wire::{ErrorCode, Redirect, server};

/// The reads that a behaviour affects; all others succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AffectedReads {
    /// All.
    Everything,
    /// Reads of many ranges at a time.
    Vectors,
    /// Reads of one range at a time.
    Runs,
    /// Reads whose responses state their offset: of many ranges, or with checksums.
    Placed,
    /// Reads with page checksums.
    Pages,
    /// Reads without page checksums.
    Unpaged,
}

/// A behaviour.
#[derive(Debug, Clone)]
pub struct XrootdBehaviour {
    /// Its description.
    pub name: String,
    /// The faults with which a [`MockXrootdServer`](super::MockXrootdServer) has this behaviour.
    pub faults: Vec<(FaultStage, FaultTrigger, Fault)>,
    /// The affected reads.
    pub of: AffectedReads,
    /// The expected result: correct bytes, or an error of this kind.
    pub outcome: Result<(), ErrorKind>,
}

/// All behaviours.
#[must_use]
pub fn behaviours() -> Vec<XrootdBehaviour> {
    let mut all = Vec::new();
    for some in [connections(), logins(), opens(), reads(), data()] {
        all.extend(some);
    }
    all
}

fn behaviour(
    faults: &[(FaultStage, FaultTrigger, Fault)],
    of: AffectedReads,
    outcome: Result<(), ErrorKind>,
) -> XrootdBehaviour {
    XrootdBehaviour { name: format!("{faults:?}"), faults: faults.to_vec(), of, outcome }
}

fn one(
    step: FaultStage,
    when: FaultTrigger,
    fault: Fault,
    outcome: Result<(), ErrorKind>,
) -> XrootdBehaviour {
    behaviour(&[(step, when, fault)], AffectedReads::Everything, outcome)
}

/// Failures of connections.
fn connections() -> Vec<XrootdBehaviour> {
    let at = FaultStage::Connection;
    let points = [
        BreakPoint::ToServer(0),
        BreakPoint::ToServer(30),
        BreakPoint::ToServer(100),
        BreakPoint::ToClient(0),
        BreakPoint::ToClient(10),
        BreakPoint::ToClient(60),
        BreakPoint::ToClient(130),
        BreakPoint::Answered(0),
        BreakPoint::Answered(1),
        BreakPoint::Answered(2),
        BreakPoint::Answered(3),
    ];
    let mut all = Vec::new();
    for point in points {
        for fault in [Fault::Close(point), Fault::Reset(point), Fault::Stall(point)] {
            all.push(one(at, Nth(0), fault, Ok(())));
        }
    }
    for point in [BreakPoint::ToServer(0), BreakPoint::ToClient(0), BreakPoint::ToClient(60)] {
        all.push(one(at, Always, Fault::Close(point), Err(ErrorKind::Unavailable)));
        all.push(one(at, Always, Fault::Reset(point), Err(ErrorKind::Unavailable)));
        all.push(one(at, Always, Fault::Stall(point), Err(ErrorKind::Timeout)));
    }
    // Each connection delivers only a few bytes.
    all.push(one(at, Always, Fault::Close(BreakPoint::Answered(6)), Ok(())));
    for banner in
        [&b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..], &[0; 64], b"220 mail\r\n"]
    {
        let outcome = if banner.len() < 16 { ErrorKind::Timeout } else { ErrorKind::Protocol };
        all.push(one(at, Always, Fault::Banner(banner), Err(outcome)));
    }
    all
}

/// Responses of servers before a file is opened.
fn logins() -> Vec<XrootdBehaviour> {
    let refused = |step, code, kind| one(step, Always, Fault::Refused(code), Err(kind));
    vec![
        // These flags are not needed.
        one(FaultStage::Protocol, Always, Fault::Unanswered, Ok(())),
        refused(FaultStage::Protocol, ErrorCode::SERVER_ERROR, ErrorKind::Unavailable),
        one(FaultStage::Login, Nth(0), Fault::Wait(0), Ok(())),
        one(FaultStage::Login, Nth(0), Fault::Later(1), Ok(())),
        one(FaultStage::Login, Always, Fault::Proof("unix"), Ok(())),
        one(FaultStage::Login, Always, Fault::Proof("krb5"), Err(ErrorKind::Unauthenticated)),
        refused(FaultStage::Login, ErrorCode::AUTH_FAILED, ErrorKind::Unauthenticated),
        refused(FaultStage::Login, ErrorCode::NOT_AUTHORIZED, ErrorKind::PermissionDenied),
        one(FaultStage::Login, Always, Fault::ToItself, Err(ErrorKind::Protocol)),
        one(FaultStage::Login, Always, Fault::Notice, Ok(())),
        one(FaultStage::Query, Always, Fault::Unanswered, Ok(())),
        one(FaultStage::Query, Always, Fault::Refused(ErrorCode::UNSUPPORTED), Ok(())),
        // A server that does not support these settings returns their names; dCache states limits
        // that are much higher than its actual ones.
        one(FaultStage::Query, Always, Fault::Text("readv_ior_max\nreadv_iov_max\n"), Ok(())),
        one(FaultStage::Query, Always, Fault::Text("8388592\n178956970\n"), Ok(())),
        one(FaultStage::Query, Always, Fault::Text("4096\n3\n"), Ok(())),
        one(FaultStage::Query, Always, Fault::Text("0\n0\n"), Ok(())),
        one(FaultStage::Query, Always, Fault::Text("-1\n\u{fffd}\n"), Ok(())),
        // As servers before version 5.
        behaviour(
            &[(FaultStage::Protocol, Always, Fault::Flags(server::IS_SERVER))],
            AffectedReads::Pages,
            Err(ErrorKind::Unsupported),
        ),
    ]
}

/// Failures of opens.
fn opens() -> Vec<XrootdBehaviour> {
    let at = FaultStage::Open;
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

/// Failures of reads.
fn reads() -> Vec<XrootdBehaviour> {
    let at = FaultStage::Read;
    let mut all = vec![
        one(at, Nth(0), Fault::Wait(0), Ok(())),
        one(at, Nth(0), Fault::Unanswered, Ok(())),
        one(at, Always, Fault::Unanswered, Err(ErrorKind::Timeout)),
        one(at, Nth(0), Fault::LaterNever(0), Ok(())),
        one(at, Nth(0), Fault::ToItself, Ok(())),
        one(at, Always, Fault::ToItself, Err(ErrorKind::Protocol)),
        one(at, Always, Fault::Notice, Ok(())),
        one(at, Always, Fault::Twice, Ok(())),
        one(FaultStage::Request, Always, Fault::Notice, Ok(())),
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

/// Damaged data.
fn data() -> Vec<XrootdBehaviour> {
    let at = FaultStage::Read;
    let of = |of, when, fault, outcome| behaviour(&[(at, when, fault)], of, outcome);
    let wrong = Err(ErrorKind::Protocol);
    let mut all = vec![
        one(at, Nth(0), Fault::Short(1), Ok(())),
        one(at, Nth(0), Fault::Short(usize::MAX), Ok(())),
        one(at, Always, Fault::Short(usize::MAX), wrong),
        of(AffectedReads::Unpaged, Nth(0), Fault::Frames(1), Ok(())),
        of(AffectedReads::Unpaged, Always, Fault::Frames(19), Ok(())),
        of(AffectedReads::Unpaged, Always, Fault::Empty(3), Ok(())),
        of(AffectedReads::Unpaged, Always, Fault::Empty(5_000), wrong),
        one(at, Always, Fault::NeverLast, Ok(())),
        one(at, Nth(0), Fault::Long(1), Ok(())),
        one(at, Nth(0), Fault::Long(100_000), Ok(())),
        // This has no effect after the last part of a vector.
        of(AffectedReads::Runs, Always, Fault::Long(1), wrong),
        of(AffectedReads::Runs, Always, Fault::Long(100_000), wrong),
        of(AffectedReads::Vectors, Always, Fault::Reversed, Ok(())),
        of(AffectedReads::Vectors, Nth(0), Fault::OtherFile, Ok(())),
        of(AffectedReads::Vectors, Always, Fault::OtherFile, wrong),
        of(AffectedReads::Vectors, Always, Fault::LeftOut, Ok(())),
        of(AffectedReads::Vectors, Always, Fault::Repeated, Ok(())),
        of(AffectedReads::Pages, Always, Fault::Damaged { every: 1, again: false }, Ok(())),
        of(AffectedReads::Pages, Always, Fault::Damaged { every: 3, again: false }, Ok(())),
        of(AffectedReads::Pages, Nth(0), Fault::Damaged { every: 1, again: true }, Ok(())),
        of(
            AffectedReads::Pages,
            Always,
            Fault::Damaged { every: 1, again: true },
            Err(ErrorKind::Corrupt),
        ),
    ];
    for bytes in [1, 4096, 1 << 40] {
        all.push(one(at, Nth(0), Fault::Shifted(bytes), Ok(())));
        all.push(of(AffectedReads::Placed, Always, Fault::Shifted(bytes), wrong));
    }
    all
}

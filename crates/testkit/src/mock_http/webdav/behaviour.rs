//! Behaviours of the mock server, and faults of single requests.

/// The target page of redirects by [`ChangeFault::Login`] and [`ReadFault::Login`].
pub const LOGIN_PAGE: &str = "<html><title>Sign in</title><form></form></html>";

/// A fault of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeFault {
    /// Redirects to an HTML page with this status.
    Login(u16),
    /// Does nothing, and responds with this status, type and body.
    Claim(u16, &'static str, &'static str),
    /// Makes the change, and responds with this status, type and body.
    Done(u16, &'static str, &'static str),
    /// Redirects with this status to the same change at another path of this server, which makes
    /// the change.
    Moved(u16),
    /// Makes the change and closes the connection without a response.
    Lost,
    /// Does nothing, and closes the connection without a response.
    Dropped,
    /// Like [`ChangeFault::Lost`]; if the change succeeded, another client then creates a file with
    /// the removed name.
    LostAndMadeAgain,
    /// Like [`ChangeFault::Dropped`]; another client then removes the resource of the change.
    DroppedAndRemoved,
    /// Does nothing, and keeps the connection open without a response.
    Silent,
    /// Makes the change, and keeps the connection open without a response.
    LostInSilence,
    /// Stores half of a body.
    Half,
    /// Stores half of a body and closes the connection without a response.
    HalfLost,
    /// Stores a body with one byte changed.
    Damaged,
}

impl ChangeFault {
    /// The number of requests to which it applies.
    pub(super) fn times(self) -> usize {
        match self {
            Self::Lost
            | Self::Dropped
            | Self::LostAndMadeAgain
            | Self::DroppedAndRemoved
            | Self::Silent
            | Self::LostInSilence => 1,
            _ => usize::MAX,
        }
    }
}

/// The content of the file of another client ([`ChangeFault::LostAndMadeAgain`]).
pub const OF_ANOTHER_CLIENT: &[u8] = b"of another client";

/// A fault of a GET, HEAD or PROPFIND.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFault {
    /// Redirects to an HTML page with this status.
    Login(u16),
    /// Responds with the status 200 and an HTML page.
    Page,
    /// Closes the connection without a response.
    Dropped,
    /// Keeps the connection open without a response.
    Silent,
    /// Stops in the middle of the body, and keeps the connection open.
    Stalled,
    /// Closes the connection in the middle of the body.
    Cut,
    /// States no length; the connection ends after the body.
    NoLength,
    /// States no length, and closes the connection in the middle of the body.
    NoLengthCut,
    /// Sends half of the body, and states its length.
    Less,
    /// Sends bytes from the beginning of the file with the `Content-Range` of the requested range.
    OtherRange,
    /// Ignores the range.
    Whole,
    /// States a content coding that the client has not requested.
    Coded,
    /// Changes one byte of the body.
    Damaged,
    /// Replaces the file before the response.
    Replaced(Vec<u8>),
    /// Omits the last name of a listing.
    Omits,
    /// Responds with this status for the last name of a listing.
    Refuses(u16),
    /// Replaces the last name of a listing with "507 Insufficient Storage" for the directory.
    Insufficient,
    /// Omits sizes from a listing.
    NoSizes,
    /// Adds this to the sizes in a listing.
    WrongSizes(u64),
    /// States a size of 0 for all files in a listing.
    ZeroSizes,
    /// Cuts a listing, and states the length of the rest.
    CutListing,
}

/// The fault of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebDavFault {
    /// Does nothing, and responds with this status, with `Retry-After: 0` if it means that the
    /// server is busy.
    Status(u16),
    /// A fault of a change.
    Change(ChangeFault),
    /// A fault of a GET, HEAD or PROPFIND.
    Read(ReadFault),
}

/// A fault of some requests with one method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFault {
    /// The method.
    pub method: &'static str,
    /// The first of these requests to which it applies, counted from 0.
    pub nth: usize,
    /// The number of requests to which it applies.
    pub times: usize,
    /// The fault.
    pub fault: WebDavFault,
}

impl PlannedFault {
    /// Returns true if it applies to the request with this method and number.
    pub(super) fn includes(&self, method: &str, nth: usize) -> bool {
        self.method == method && nth >= self.nth && nth - self.nth < self.times
    }
}

/// The requests in whose responses the server states the sizes of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatedSizes {
    /// All of them.
    #[default]
    Always,
    /// Only GET of a range. HEAD states 0, PROPFIND no size.
    ByGet,
    /// None of them.
    Never,
}

/// The validators that the server sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatedValidators {
    /// Entity tags.
    #[default]
    Tags,
    /// Entity tags and dates.
    TagsAndDates,
    /// Weak entity tags, with which no condition holds.
    WeakTags,
    /// Weak entity tags and dates.
    WeakTagsAndDates,
    /// Dates.
    Dates,
    /// No validator.
    Nothing,
}

impl StatedValidators {
    /// Returns true if dates are among them.
    #[must_use]
    pub fn has_dates(self) -> bool {
        matches!(self, Self::TagsAndDates | Self::WeakTagsAndDates | Self::Dates)
    }

    /// Returns true if entity tags are among them, weak ones included.
    #[must_use]
    pub fn has_tags(self) -> bool {
        !matches!(self, Self::Dates | Self::Nothing)
    }

    /// Returns true if the entity tags are weak.
    #[must_use]
    pub fn are_weak(self) -> bool {
        matches!(self, Self::WeakTags | Self::WeakTagsAndDates)
    }
}

/// The reaction to a PUT with `Content-Range`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PiecesTaken {
    /// Responds with 501, like nginx.
    #[default]
    Never,
    /// Writes the piece at its offset, like Apache.
    AsPieces,
    /// Replaces the file with the piece, like XrdHttp.
    AsFiles,
}

/// The protocol that the server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP with WebDAV.
    #[default]
    WebDav,
    /// S3, for one bucket: the first name of each path. It has no multipart uploads.
    S3,
    /// XRootD (`root://`). Planned faults name the methods of WebDAV: `GET` stands for opening to
    /// read and for reading, `HEAD` for a status or a checksum, `PROPFIND` for a listing, `PUT` for
    /// opening to write and for writing.
    Xrootd,
}

/// The behaviour of a server in all requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebDavBehaviour {
    /// The protocol that it speaks.
    pub protocol: Protocol,
    /// The requests in whose responses it states the sizes of files.
    pub sizes: StatedSizes,
    /// The validators that it sends.
    pub validators: StatedValidators,
    /// The reaction to a PUT with `Content-Range`.
    pub pieces: PiecesTaken,
    /// The status with which it refuses MOVE.
    pub refuses_moves: Option<u16>,
    /// MOVE and COPY replace an existing target despite `Overwrite: F`.
    pub ignores_overwrite: bool,
    /// Names that differ only in case refer to the same file.
    pub ignores_case: bool,
    /// The server does not support PROPFIND, and lists directories as HTML indexes without sizes or
    /// names that begin with a dot.
    pub has_index: bool,
    /// PUT creates missing parent directories.
    pub makes_parents: bool,
    /// The server sends checksums on request.
    pub has_checksums: bool,
    /// The server keeps the time that a client states in `X-OC-Mtime`.
    pub keeps_times: bool,
    /// The number of seconds by which its clock is ahead; negative if it is behind.
    pub clock: i64,
}

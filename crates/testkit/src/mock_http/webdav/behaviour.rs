//! Behaviours of the mock WebDAV server, and faults of single requests.

/// The page behind a redirect to [`ChangeFault::Login`] and [`ReadFault::Login`].
pub const LOGIN_PAGE: &str = "<html><title>Sign in</title><form></form></html>";

/// The treatment of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeFault {
    /// Redirects to a page of HTML with this status.
    Login(u16),
    /// Does nothing, and responds with this status, type and body.
    Claim(u16, &'static str, &'static str),
    /// Carries it out, and responds with this status, type and body.
    Done(u16, &'static str, &'static str),
    /// Redirects to the same change at another path of this server, which carries it out.
    Moved(u16),
    /// Carries it out and closes the connection without a response.
    Lost,
    /// Does nothing, and closes the connection without a response.
    Dropped,
    /// As [`ChangeFault::Lost`]; if it was carried out, another client then makes a file of the
    /// name that was removed.
    LostAndMadeAgain,
    /// As [`ChangeFault::Dropped`]; another client then removes what was to be changed.
    DroppedAndRemoved,
    /// Stores half of a body.
    Half,
    /// Stores half of a body and closes the connection without a response.
    HalfLost,
    /// Stores a body with one byte changed.
    Damaged,
}

impl ChangeFault {
    /// The number of requests that it happens to.
    pub(super) fn times(self) -> usize {
        match self {
            Self::Lost | Self::Dropped | Self::LostAndMadeAgain | Self::DroppedAndRemoved => 1,
            _ => usize::MAX,
        }
    }
}

/// The content of a file that another client makes ([`ChangeFault::LostAndMadeAgain`]).
pub const OF_ANOTHER_CLIENT: &[u8] = b"of another client";

/// The treatment of a GET, HEAD or PROPFIND.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFault {
    /// Redirects to a page of HTML with this status.
    Login(u16),
    /// Responds with the status 200 and a page of HTML.
    Page,
    /// Closes the connection without a response.
    Dropped,
    /// Closes the connection amid the body.
    Cut,
    /// Tells no length; the connection ends after the body.
    NoLength,
    /// Tells no length, and ends the connection amid the body.
    NoLengthCut,
    /// Sends half of the body, and tells the length of that.
    Less,
    /// Sends bytes from the beginning under the label of the range.
    OtherRange,
    /// Ignores the range.
    Whole,
    /// Labels the body with a coding that nobody has asked for.
    Coded,
    /// Changes one byte of the body.
    Damaged,
    /// Has the file replaced first.
    Replaced(Vec<u8>),
    /// Leaves the last name out of a listing.
    Omits,
    /// Responds for the last name of a listing with this status.
    Refuses(u16),
    /// Ends a listing with "507 Insufficient Storage" for the directory.
    Insufficient,
    /// Leaves sizes out of a listing.
    NoSizes,
    /// Adds this to the sizes in a listing.
    WrongSizes(u64),
    /// Tells a size of 0 for all files in a listing.
    ZeroSizes,
    /// Cuts a listing, and tells the length of the rest.
    CutListing,
}

/// The fault of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebDavFault {
    /// Does nothing, and responds with this status, and `Retry-After: 0` if it is a busy one.
    Status(u16),
    /// The treatment of a change.
    Change(ChangeFault),
    /// The treatment of a GET, HEAD or PROPFIND.
    Read(ReadFault),
}

/// A fault of some requests with one method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFault {
    /// The method.
    pub method: &'static str,
    /// The first of these requests that it happens to, counted from 0.
    pub nth: usize,
    /// The number of requests that it happens to.
    pub times: usize,
    /// The fault.
    pub fault: WebDavFault,
}

impl PlannedFault {
    /// Returns true if it happens to the request with this method and number.
    pub(super) fn includes(&self, method: &str, nth: usize) -> bool {
        self.method == method && nth >= self.nth && nth - self.nth < self.times
    }
}

/// The requests to which the server tells the sizes of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SizesTold {
    /// All of them.
    #[default]
    Always,
    /// GET of a range. HEAD says 0, PROPFIND nothing.
    ByGet,
    /// None.
    Never,
}

/// The validators that the server tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ValidatorsTold {
    /// Entity tags.
    #[default]
    Tags,
    /// Entity tags and dates.
    TagsAndDates,
    /// Dates.
    Dates,
    /// None.
    Nothing,
}

impl ValidatorsTold {
    /// Returns true if dates are among them.
    #[must_use]
    pub fn has_dates(self) -> bool {
        matches!(self, Self::TagsAndDates | Self::Dates)
    }

    /// Returns true if entity tags are among them.
    #[must_use]
    pub fn has_tags(self) -> bool {
        matches!(self, Self::TagsAndDates | Self::Tags)
    }
}

/// The treatment of a PUT with `Content-Range`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PiecesTaken {
    /// It is 501, as with nginx.
    #[default]
    Never,
    /// It is written to its place, as with Apache.
    AsPieces,
    /// It becomes the whole file, as with XrdHttp.
    AsFiles,
}

/// The behaviour of a server in all requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebDavBehaviour {
    /// The requests to which it tells the sizes of files.
    pub sizes: SizesTold,
    /// The validators that it tells.
    pub validators: ValidatorsTold,
    /// The treatment of a PUT with `Content-Range`.
    pub pieces: PiecesTaken,
    /// The status by which it refuses MOVE.
    pub refuses_moves: Option<u16>,
    /// MOVE and COPY replace what is there in spite of `Overwrite: F`.
    pub ignores_overwrite: bool,
    /// Names that differ in case are one.
    pub ignores_case: bool,
    /// It has no PROPFIND, and lists by an HTML index without sizes, which hides names that begin
    /// with a dot.
    pub has_index: bool,
    /// PUT makes the directories that are missing.
    pub makes_parents: bool,
    /// It tells checksums to those who ask.
    pub has_checksums: bool,
    /// It keeps the time of `X-OC-Mtime`.
    pub keeps_times: bool,
}

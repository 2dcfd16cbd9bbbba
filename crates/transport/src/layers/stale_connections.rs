//! Connections that a server has closed.
//!
//! A server may close an idle connection at any time, also while a request is on its way to it (RFC
//! 9112 section 9.3.1). The connection is *stale* then, and the request is sent again at once, on
//! another connection. Other idle connections may be stale, too.
//!
//! Only a connection that has carried a response before is taken for stale. On a new one, the
//! server may have ended because of the request. And only a request that may be repeated is sent
//! again: one that reads, or a change that has not reached the server as a whole. Any other change
//! may have been carried out. Its error reports that ([`Error::may_have_been_carried_out`]), and a
//! look at the server decides ([`call::change`](crate::http::call::change)).

use crate::location::Location;
use hither_core::error::{Effect, Error, ErrorKind};
use tracing::debug;

/// The stale connections of one request.
#[derive(Debug)]
pub(crate) struct StaleConnections {
    left: usize,
}

impl StaleConnections {
    /// Sends a request again for at most `most` stale connections in a row.
    pub(crate) fn at_most(most: usize) -> Self {
        Self { left: most }
    }

    /// Returns true if the request to `location` is sent again after a connection that `is_stale`.
    pub(crate) fn sends_again(&mut self, location: &Location, is_stale: bool) -> bool {
        if !is_stale || self.left == 0 {
            return false;
        }
        self.left -= 1;
        debug!(url = %location, "stale connection, sending the request again");
        true
    }
}

/// A request that failed on its connection.
#[derive(Debug)]
pub(crate) struct FailedRequest {
    pub(crate) error: Error,
    /// The connection was stale, and the request may be repeated.
    pub(crate) is_stale: bool,
}

impl FailedRequest {
    /// The failure of a request with this effect on a connection that may have carried responses
    /// before (`has_answered`).
    pub(crate) fn new(error: Error, has_answered: bool, effect: Effect) -> Self {
        let is_stale = has_answered
            && error.kind() == ErrorKind::Unavailable
            && !error.clone().with_effect(effect).may_have_been_carried_out();
        Self { error, is_stale }
    }
}

impl From<Error> for FailedRequest {
    /// The failure of a request that was not sent, or that was answered.
    fn from(error: Error) -> Self {
        Self { error, is_stale: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::error::{Delivery, Failure};

    #[test]
    fn a_request_is_sent_again_for_stale_connections_only_and_not_without_end() {
        let location = Location::parse("http://host/f").unwrap();
        let mut stale = StaleConnections::at_most(2);
        let again = [false, true, false, true, true].map(|it| stale.sends_again(&location, it));
        assert_eq!(again, [false, true, false, true, false]);
    }

    #[test]
    fn a_change_is_repeated_only_if_the_server_has_not_got_all_of_it() {
        use Delivery::{Sent, Unsent};
        use Effect::{Change, Own, Read};
        for (has_answered, delivery, effect, expected) in [
            (true, Sent, Read, true),
            (true, Sent, Own, true),
            (true, Sent, Change, false),
            (true, Unsent, Change, true),
            (false, Sent, Read, false),
            (false, Unsent, Change, false),
        ] {
            let error = Error::new(ErrorKind::Unavailable, "closed");
            let error = error.with_failure(Failure::Interrupted(delivery));
            let failed = FailedRequest::new(error, has_answered, effect);
            assert_eq!(failed.is_stale, expected, "{has_answered} {delivery:?} {effect:?}");
        }
    }

    #[test]
    fn a_server_that_is_silent_or_sends_garbage_has_not_closed_the_connection() {
        for kind in [ErrorKind::Timeout, ErrorKind::Protocol] {
            let failed = FailedRequest::new(Error::new(kind, "no response"), true, Effect::Read);
            assert!(!failed.is_stale, "{kind:?}");
        }
    }
}

//! The limits on redirects and on renewed credentials, the same for every protocol.
//!
//! A request is attempted at the known location of its file, and again where a server redirects it.
//! Each attempt counts, also one that is repeated at the same server: after a renewed credential, a
//! 417, or a change to TLS. So a loop between servers ends with an error. A rejected credential is
//! renewed once per request, because the new one may be rejected as well.

pub(crate) mod retry_after;

use crate::authorization;
use crate::config::TransportConfig;
use crate::location::Location;
use hither_auth::Authorization;
use hither_core::error::{Error, ErrorKind, Result};

/// The maximum number of redirects of an HTTP request.
pub(crate) const MAX_HTTP_REDIRECTS: usize = 8;

/// The maximum number of redirects of a root:// request, as in XRootD's own client.
pub(crate) const MAX_XROOTD_REDIRECTS: usize = 16;

/// The attempts of one request.
#[derive(Debug)]
pub(crate) struct Attempts {
    first: Location,
    max_redirects: usize,
    made: usize,
    renewed: bool,
}

impl Attempts {
    /// A request to `first` that was not attempted yet.
    pub(crate) fn new(first: &Location, max_redirects: usize) -> Self {
        Self { first: first.clone(), max_redirects, made: 0, renewed: false }
    }

    /// Counts an attempt.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] beyond the limit.
    pub(crate) fn count(&mut self) -> Result<()> {
        self.made += 1;
        if self.made <= self.max_redirects + 1 {
            return Ok(());
        }
        let (first, max) = (&self.first, self.max_redirects);
        let what = format!("{first}: more than {max} redirects, probably a loop between servers");
        Err(Error::new(ErrorKind::Protocol, what))
    }

    /// Reads the credential for `location` again after a server rejected `used`, once. Returns
    /// whether another one is available, so that the request can be repeated.
    pub(crate) async fn renew(
        &mut self,
        location: &Location,
        config: &TransportConfig,
        used: &Authorization,
    ) -> bool {
        if !self.renewed {
            self.renewed = authorization::renewed(location, config, used).await;
            return self.renewed;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_comes_after_the_last_allowed_redirect() {
        let mut attempts = Attempts::new(&Location::parse("http://host/f").unwrap(), 2);
        assert!((0..3).all(|_| attempts.count().is_ok()));
        let error = attempts.count().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.to_string().contains("http://host/f: more than 2 redirects"), "{error}");
    }
}

//! Whom a client may connect to, where that is not everybody.
//!
//! A program that connects to where others tell it to, as a server does that copies from other servers, can be made to speak
//! to what only it can reach: services of its own machine and of its own network. A name says little about that, because
//! whoever owns it decides what it resolves to, and may change that between a check and its use. So a [`EgressFilter`] is asked
//! for every connection, behind redirects as well, with the very address that is connected to.

use crate::location::Location;
use hither_core::error::Result;
use std::fmt::Debug;
use std::net::SocketAddr;

/// Decides whom a client may connect to.
pub trait EgressFilter: Debug + Send + Sync {
    /// Whether the server of `location` may be connected to at `address`. Where a proxy is in between, that is the proxy's.
    ///
    /// # Errors
    ///
    /// Why not: what the request that needed the connection fails with.
    fn pass(&self, location: &Location, address: SocketAddr) -> Result<()>;
}

/// Those of `addresses` that may be connected to, in their order.
///
/// # Errors
///
/// The gate's, if there are none.
pub(crate) fn passed(
    gate: Option<&dyn EgressFilter>,
    location: &Location,
    mut addresses: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>> {
    let Some(gate) = gate else { return Ok(addresses) };
    let mut refused = Ok(());
    addresses.retain(|address| {
        let passed = gate.pass(location, *address);
        let is_open = passed.is_ok();
        if !is_open && refused.is_ok() {
            refused = passed;
        }
        is_open
    });
    if addresses.is_empty() { refused.map(|()| addresses) } else { Ok(addresses) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::error::{Error, ErrorKind};

    #[derive(Debug)]
    struct OddPorts;

    impl EgressFilter for OddPorts {
        fn pass(&self, location: &Location, address: SocketAddr) -> Result<()> {
            match address.port() % 2 {
                1 => Ok(()),
                _ => Err(Error::new(ErrorKind::PermissionDenied, format!("not {location}"))),
            }
        }
    }

    #[test]
    fn addresses_that_are_not_let_through_are_left_out() {
        let location = Location::parse("http://host/").unwrap();
        let [one, two] = [1, 2].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let through =
            |addresses: &[SocketAddr]| passed(Some(&OddPorts), &location, addresses.to_vec());
        assert_eq!(through(&[two, one]).unwrap(), [one]);
        assert_eq!(through(&[two]).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(through(&[]).unwrap(), []);
        assert_eq!(passed(None, &location, vec![two]).unwrap(), [two]);
    }
}

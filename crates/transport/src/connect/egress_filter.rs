//! A filter of the addresses that a client may connect to.
//!
//! A program that connects to addresses named by others, such as a server that copies from other
//! servers, can be abused to reach services of its own machine and network. A host name is no
//! protection: its owner decides which address it has, and may change that between a check and its
//! use. So an [`EgressFilter`] sees every connection, also behind redirects, with the address
//! itself.

use crate::location::Location;
use hither_core::error::Result;
use std::fmt::Debug;
use std::net::SocketAddr;

/// Decides which addresses a client may connect to.
pub trait EgressFilter: Debug + Send + Sync {
    /// Allows or forbids to connect to the server of `location` at `address`. With a proxy, the
    /// address is that of the proxy.
    ///
    /// # Errors
    ///
    /// The reason. The request that needed the connection fails with it.
    fn pass(&self, location: &Location, address: SocketAddr) -> Result<()>;
}

/// The allowed ones of `addresses`, in their order.
///
/// # Errors
///
/// The error of the filter, if no address is allowed.
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

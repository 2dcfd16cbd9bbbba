//! Revocation lists without extensions, of version 1 or 2. They have no scope, no reasons and no
//! changes to an earlier list: a certificate is revoked if its serial number is in the list.

use rustls_pki_types::CertificateDer;
use std::collections::HashSet;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::revocation_list::CertificateRevocationList;

/// The serial numbers that an authority has revoked.
#[derive(Debug, Default)]
pub(super) struct SimpleList {
    revoked: HashSet<Vec<u8>>,
    /// The time until which the list is in date, in seconds since 1970.
    until: i64,
}

impl SimpleList {
    /// Reads a list; none if it has extensions, or is not signed by one of `authorities`.
    pub(super) fn parse(der: &[u8], authorities: &[CertificateDer<'_>]) -> Option<Self> {
        let (_, list) = CertificateRevocationList::from_der(der).ok()?;
        if !list.extensions().is_empty() || !is_signed(&list, authorities) {
            return None;
        }
        let serials = list.iter_revoked_certificates().map(|it| significant(it.raw_serial()));
        let until = list.next_update().map_or(i64::MIN, |time| time.timestamp());
        Some(Self { revoked: serials.map(<[u8]>::to_vec).collect(), until })
    }

    /// Adds another list of the same authority.
    pub(super) fn append(&mut self, other: Self) {
        self.revoked.extend(other.revoked);
        self.until = self.until.max(other.until);
    }

    pub(super) fn has(&self, serial: &[u8]) -> bool {
        self.revoked.contains(significant(serial))
    }

    /// Returns true until the authority has to publish the next list.
    pub(super) fn is_current(&self, now: i64) -> bool {
        now <= self.until
    }
}

/// The name of the authority of a list, in DER.
pub(super) fn issuer_of(der: &[u8]) -> Option<Vec<u8>> {
    let (_, list) = CertificateRevocationList::from_der(der).ok()?;
    Some(list.issuer().as_raw().to_vec())
}

fn is_signed(list: &CertificateRevocationList<'_>, authorities: &[CertificateDer<'_>]) -> bool {
    authorities.iter().any(|der| {
        let Ok((_, authority)) = X509Certificate::from_der(der) else { return false };
        let usage = authority.key_usage().ok().flatten();
        authority.subject().as_raw() == list.issuer().as_raw()
            && usage.is_none_or(|usage| usage.value.crl_sign())
            && list.verify_signature(authority.public_key()).is_ok()
    })
}

/// A number without leading zeros.
fn significant(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    serial.get(zeros..).unwrap_or_default()
}

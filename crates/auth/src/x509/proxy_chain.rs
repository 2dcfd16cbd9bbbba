//! Verification of proxy certificates (RFC 3820) by a server: finds the person of a chain.
//!
//! A proxy is signed by a person's certificate or by another proxy. Neither is an authority, so the
//! usual verification rejects it. This module verifies the proxies at the front of a chain, link by
//! link, up to the person's (end-entity) certificate; TLS verifies that certificate and the
//! following ones as usual. Rules for each link:
//!
//! - its issuer is the next certificate, by name and by signature, and that certificate may sign;
//! - its subject is the subject of the next certificate plus one common name;
//! - a critical extension marks it as a proxy, with a policy that inherits all rights (or all but
//!   some, as the limited proxies of grids do), and allows as many proxies below it as there are;
//! - it is valid now, is not an authority, and has no other unknown critical extension.
//!
//! Proxies from before the RFC, marked only by the common name `proxy`, are rejected: no extension
//! identifies them.

use crate::x509::distinguished_name::DistinguishedName;
use rustls_pki_types::CertificateDer;
use x509_parser::der_parser::asn1_rs::{Integer, OctetString, Oid, Sequence};
use x509_parser::prelude::{FromDer, ParsedExtension, X509Certificate};
use x509_parser::time::ASN1Time;

/// The extension that marks a proxy (RFC 3820 section 3.8).
const PROXY_CERT_INFO: &str = "1.3.6.1.5.5.7.1.14";
/// Policies that give a proxy the rights of its person: inherit all, and Globus' limited proxies,
/// which may not start jobs.
const POLICIES: [&str; 2] = ["1.3.6.1.5.5.7.21.1", "1.3.6.1.4.1.3536.1.1.1.9"];
/// Maximum number of proxies in a chain.
const MAX_PROXIES: usize = 10;

/// Reason why a chain with proxies is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the proxy certificate {what}")]
pub struct ProxyChainError {
    what: &'static str,
}

fn bad<T>(what: &'static str) -> Result<T, ProxyChainError> {
    Err(ProxyChainError { what })
}

/// Verifies the proxies at the front of a chain. Returns the index of the person's certificate: 0
/// if there are no proxies. It does not verify that certificate. `now` is in seconds since 1970.
///
/// # Errors
///
/// [`ProxyChainError`] if one of them violates RFC 3820.
pub fn end_entity_index(chain: &[CertificateDer<'_>], now: i64) -> Result<usize, ProxyChainError> {
    let mut below = 0;
    let Some(mut certificate) = chain.first().map(parsed).transpose()? else {
        return bad("is missing");
    };
    while is_marked(&certificate) {
        let Some(next) = chain.get(below + 1).filter(|_| below < MAX_PROXIES) else {
            return bad("is not followed by an end-entity certificate within 10 links");
        };
        let issuer = parsed(next)?;
        check_link(&certificate, &issuer, below, now)?;
        (certificate, below) = (issuer, below + 1);
    }
    Ok(below)
}

fn parsed<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, ProxyChainError> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        _ => bad("cannot be parsed"),
    }
}

/// Returns the distinguished name of the first certificate that is not a proxy. Verifies nothing.
#[must_use]
pub fn subject_of(chain: &[CertificateDer<'_>]) -> Option<DistinguishedName> {
    let mut certificates = chain.iter().map(|der| parsed(der).ok());
    let person = certificates.find(|one| one.as_ref().is_none_or(|one| !is_marked(one)))??;
    Some(DistinguishedName::of(person.subject()))
}

/// End of the validity of a certificate, in seconds since 1970; `None` if it cannot be parsed.
#[must_use]
pub fn not_after_of(certificate: &CertificateDer<'_>) -> Option<i64> {
    parsed(certificate).ok().map(|certificate| certificate.validity().not_after.timestamp())
}

/// The public key of a certificate (a `SubjectPublicKeyInfo` in DER); `None` if it cannot be
/// parsed.
#[must_use]
pub fn public_key_of(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    parsed(certificate).ok().map(|certificate| certificate.public_key().raw.to_vec())
}

pub(crate) fn is_marked(certificate: &X509Certificate<'_>) -> bool {
    certificate.extensions().iter().any(|one| one.oid.to_id_string() == PROXY_CERT_INFO)
}

fn check_link(
    proxy: &X509Certificate<'_>,
    issuer: &X509Certificate<'_>,
    below: usize,
    now: i64,
) -> Result<(), ProxyChainError> {
    if proxy.issuer().as_raw() != issuer.subject().as_raw() {
        return bad("was not issued by the next certificate in the chain");
    }
    if proxy.verify_signature(Some(issuer.public_key())).is_err() {
        return bad("has an invalid signature");
    }
    let time = ASN1Time::from_timestamp(now)
        .map_err(|_| ProxyChainError { what: "cannot be checked at this time" })?;
    if !proxy.validity().is_valid_at(time) {
        return bad("has expired or is not yet valid");
    }
    check_name(proxy, issuer)?;
    check_extensions(proxy, below)?;
    let may_sign =
        issuer.key_usage().ok().flatten().is_none_or(|one| one.value.digital_signature());
    if may_sign { Ok(()) } else { bad("is signed by a certificate that may not sign") }
}

/// Checks that the subject is the issuer's plus one common name.
fn check_name(
    proxy: &X509Certificate<'_>,
    issuer: &X509Certificate<'_>,
) -> Result<(), ProxyChainError> {
    let mut names = proxy.subject().iter_rdn();
    for expected in issuer.subject().iter_rdn() {
        let same = names.next().is_some_and(|name| {
            name.iter()
                .map(|one| (one.attr_type(), one.attr_value()))
                .eq(expected.iter().map(|one| (one.attr_type(), one.attr_value())))
        });
        if !same {
            return bad("has a subject that does not begin with its issuer's");
        }
    }
    let last: Vec<_> = names.flat_map(|name| name.iter()).collect();
    match last.as_slice() {
        [one] if one.attr_type().to_id_string() == "2.5.4.3" => Ok(()),
        _ => bad("has a subject that is not its issuer's plus one common name"),
    }
}

fn check_extensions(proxy: &X509Certificate<'_>, below: usize) -> Result<(), ProxyChainError> {
    for extension in proxy.extensions() {
        match extension.parsed_extension() {
            _ if extension.oid.to_id_string() == PROXY_CERT_INFO => {
                if !extension.critical {
                    return bad("has a proxyCertInfo extension that is not critical");
                }
                check_info(extension.value, below)?;
            }
            ParsedExtension::BasicConstraints(constraints) if constraints.ca => {
                return bad("claims to be a certificate authority");
            }
            ParsedExtension::SubjectAlternativeName(_)
            | ParsedExtension::IssuerAlternativeName(_) => {
                return bad("has an alternative name");
            }
            ParsedExtension::BasicConstraints(_)
            | ParsedExtension::KeyUsage(_)
            | ParsedExtension::ExtendedKeyUsage(_) => {}
            _ if extension.critical => return bad("has an unknown critical extension"),
            _ => {}
        }
    }
    Ok(())
}

/// Checks a `ProxyCertInfo`: an optional maximum number of proxies below, and a policy.
fn check_info(value: &[u8], below: usize) -> Result<(), ProxyChainError> {
    let unreadable = ProxyChainError { what: "has an unreadable proxyCertInfo extension" };
    let (rest, info) = Sequence::from_der(value).map_err(|_| unreadable)?;
    let content: &[u8] = &info.content;
    let (content, most) = match Integer::from_der(content) {
        Ok((after, most)) => (after, Some(most.as_u32().map_err(|_| unreadable)?)),
        Err(_) => (content, None),
    };
    let (after, policy) = Sequence::from_der(content).map_err(|_| unreadable)?;
    let (text, language) = Oid::from_der(&policy.content).map_err(|_| unreadable)?;
    let text =
        if text.is_empty() { text } else { OctetString::from_der(text).map_err(|_| unreadable)?.0 };
    if !rest.is_empty() || !after.is_empty() || !text.is_empty() {
        return Err(unreadable);
    }
    if most.is_some_and(|most| usize::try_from(most).unwrap_or(usize::MAX) < below) {
        return bad("has more proxies below it than its proxyCertInfo extension allows");
    }
    if POLICIES.contains(&language.to_id_string().as_str()) {
        Ok(())
    } else {
        bad("has an unknown proxy policy")
    }
}

#[cfg(test)]
mod tests;

//! Proxies (RFC 3820) as a server sees them: who stands behind a chain of certificates.
//!
//! A proxy is signed by a person's certificate, or by another proxy, neither of which is an authority: so the usual
//! verification refuses it. Here the proxies at the front of a chain are verified, link by link, up to the person's
//! certificate; that one and what follows it is verified as usual, by TLS. For every link:
//!
//! - its issuer is the next certificate, by name and by signature, and that one may sign;
//! - its name is that of the next certificate and one common name more;
//! - it is marked as a proxy by a critical extension, with a policy that inherits all rights (or all but some, as limited
//!   proxies of grids do), and may have as many proxies below it as it has;
//! - it is valid now, is no authority, and has no other critical extension that is not known here.
//!
//! Proxies from before the RFC, known only by a common name `proxy`, are not taken: nothing in them says what they are.

use rustls_pki_types::CertificateDer;
use x509_parser::der_parser::asn1_rs::{Integer, OctetString, Oid, Sequence};
use x509_parser::prelude::{FromDer, ParsedExtension, X509Certificate};
use x509_parser::time::ASN1Time;

/// Marks a proxy (RFC 3820 section 3.8).
const PROXY_CERT_INFO: &str = "1.3.6.1.5.5.7.1.14";
/// Policies that leave a proxy what its person may do: inherit all, and Globus' limited proxies, which may not start jobs.
const POLICIES: [&str; 2] = ["1.3.6.1.5.5.7.21.1", "1.3.6.1.4.1.3536.1.1.1.9"];
/// Most proxies in a chain.
const MAX_PROXIES: usize = 10;

/// Why a chain with proxies is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the proxy certificate {what}")]
pub struct ProxyChainError {
    what: &'static str,
}

fn bad<T>(what: &'static str) -> Result<T, ProxyChainError> {
    Err(ProxyChainError { what })
}

/// Verifies the proxies at the front of a chain, and tells at which place the person's certificate is: 0 if there are none.
/// That certificate is not verified here. `now` is in seconds since 1970.
///
/// # Errors
///
/// [`ProxyChainError`] if one of them is not as RFC 3820 has it.
pub fn end_entity_index(chain: &[CertificateDer<'_>], now: i64) -> Result<usize, ProxyChainError> {
    let mut below = 0;
    let Some(mut certificate) = chain.first().map(parsed).transpose()? else {
        return bad("is missing");
    };
    while is_marked(&certificate) {
        let Some(next) = chain.get(below + 1).filter(|_| below < MAX_PROXIES) else {
            return bad("comes without that of a person");
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
        _ => bad("cannot be read"),
    }
}

/// Whose chain it is: the distinguished name of the first certificate that is no proxy, as `C=CH, O=Grid, CN=Alice`. Nothing
/// is verified.
#[must_use]
pub fn subject_of(chain: &[CertificateDer<'_>]) -> Option<String> {
    let mut certificates = chain.iter().map(|der| parsed(der).ok());
    let person = certificates.find(|one| one.as_ref().is_none_or(|one| !is_marked(one)))??;
    Some(person.subject().to_string())
}

/// The second since 1970 after which a certificate is invalid; none if it cannot be read.
#[must_use]
pub fn not_after_of(certificate: &CertificateDer<'_>) -> Option<i64> {
    parsed(certificate).ok().map(|certificate| certificate.validity().not_after.timestamp())
}

/// The public key in a certificate (a `SubjectPublicKeyInfo` in DER), whatever else is in it; none if it cannot be read.
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
        return bad("is not of the next one in the chain");
    }
    if proxy.verify_signature(Some(issuer.public_key())).is_err() {
        return bad("has a wrong signature");
    }
    let time =
        ASN1Time::from_timestamp(now).map_err(|_| ProxyChainError { what: "has no time" })?;
    if !proxy.validity().is_valid_at(time) {
        return bad("is not valid now");
    }
    check_name(proxy, issuer)?;
    check_extensions(proxy, below)?;
    let may_sign =
        issuer.key_usage().ok().flatten().is_none_or(|one| one.value.digital_signature());
    if may_sign { Ok(()) } else { bad("is of one that may not sign") }
}

/// The name of the issuer, and one common name more.
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
            return bad("has not the name of its issuer");
        }
    }
    let last: Vec<_> = names.flat_map(|name| name.iter()).collect();
    match last.as_slice() {
        [one] if one.attr_type().to_id_string() == "2.5.4.3" => Ok(()),
        _ => bad("has not one common name more than its issuer"),
    }
}

fn check_extensions(proxy: &X509Certificate<'_>, below: usize) -> Result<(), ProxyChainError> {
    for extension in proxy.extensions() {
        match extension.parsed_extension() {
            _ if extension.oid.to_id_string() == PROXY_CERT_INFO => {
                if !extension.critical {
                    return bad("is not marked critically");
                }
                check_info(extension.value, below)?;
            }
            ParsedExtension::BasicConstraints(constraints) if constraints.ca => {
                return bad("says that it is an authority");
            }
            ParsedExtension::SubjectAlternativeName(_)
            | ParsedExtension::IssuerAlternativeName(_) => {
                return bad("has other names");
            }
            ParsedExtension::BasicConstraints(_)
            | ParsedExtension::KeyUsage(_)
            | ParsedExtension::ExtendedKeyUsage(_) => {}
            _ if extension.critical => return bad("has a critical extension that is not known"),
            _ => {}
        }
    }
    Ok(())
}

/// `ProxyCertInfo`: an optional number of proxies that may be below, and a policy.
fn check_info(value: &[u8], below: usize) -> Result<(), ProxyChainError> {
    let unreadable = ProxyChainError { what: "has an information that cannot be read" };
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
        return bad("may not have as many proxies below it");
    }
    match POLICIES.contains(&language.to_id_string().as_str()) {
        true => Ok(()),
        false => bad("has a policy that is not known"),
    }
}

#[cfg(test)]
mod tests;

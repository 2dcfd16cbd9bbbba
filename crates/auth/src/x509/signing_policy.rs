//! Signing policies of certificate authorities: the names for which an authority may sign.
//!
//! Grids have a file `*.signing_policy` for each authority, in the format of Globus (EACL):
//!
//! ```text
//! access_id_CA   X509    '/C=CH/O=Grid/CN=Authority'
//! pos_rights     globus  CA:sign
//! cond_subjects  globus  '"/C=CH/O=Grid/*" "/C=CH/O=Hosts/*"'
//! ```
//!
//! A certificate is checked against the policy of its issuer. If that has none, the policy of the
//! next authority above it applies, so that an authority cannot bypass its policy with an
//! intermediate one. Authorities without a policy may sign any name.
//!
//! The format has names in one line, in which a `/` within a value looks like a separator. A policy
//! cannot be bypassed that way, because rights are granted to structured names
//! ([`DistinguishedName`]).

use crate::error::{AuthError, Result};
use crate::private_file::{self, FileAccess, FileModeCheck};
use crate::x509::client_certificate::MAX_PEM;
use crate::x509::distinguished_name::DistinguishedName;
use crate::x509::trust_anchors::files_in;
use rustls_pki_types::CertificateDer;
use std::collections::HashMap;
use std::path::Path;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The signing policies of authorities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SigningPolicies(HashMap<String, Vec<String>>);

/// A certificate that its authority may not sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the signing policy of {authority} does not allow the name {subject}")]
pub struct SigningPolicyError {
    /// The authority.
    authority: String,
    /// The name in the certificate.
    subject: String,
}

impl SigningPolicies {
    /// Reads the policies in a folder of authorities. Also returns the errors of files that cannot
    /// be used.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn load(folder: &Path) -> Result<(Self, Vec<AuthError>)> {
        let mut policies = Self::default();
        let mut unusable = Vec::new();
        for path in files_in(folder, |name| name.ends_with(".signing_policy"))? {
            let guard = FileModeCheck { access: FileAccess::Public, link: true };
            let read = private_file::read("signing policy", &path, guard, MAX_PEM);
            let parsed = read.and_then(|text| {
                let is_read = policies.add(&String::from_utf8_lossy(&text));
                is_read.ok_or_else(|| {
                    AuthError::malformed(
                        path.display(),
                        "no signing policy in the format of Globus",
                    )
                })
            });
            unusable.extend(parsed.err());
        }
        Ok((policies, unusable))
    }

    /// Adds the entries of a file; returns `None` if it has none, or one is incomplete.
    fn add(&mut self, text: &str) -> Option<()> {
        let mut authority = None;
        let mut may_sign = false;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let rest = rest.trim_start();
            let (_, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let value = value.trim();
            match word.to_ascii_lowercase().as_str() {
                "access_id_ca" => {
                    let name = comparable(unquoted(value));
                    // An authority without any granted right may sign nothing.
                    self.0.entry(name.clone()).or_default();
                    (authority, may_sign) = (Some(name), false);
                }
                "pos_rights" => may_sign = value == "CA:sign",
                "cond_subjects" if may_sign => {
                    let allowed = self.0.entry(authority.clone()?).or_default();
                    allowed.extend(patterns(value).into_iter().map(comparable));
                }
                _ => {}
            }
        }
        authority.map(drop)
    }

    /// Checks a verified chain: the certificate of the end entity, then, in any order, the
    /// certificates of possible authorities above it.
    ///
    /// # Errors
    ///
    /// [`SigningPolicyError`] for the first certificate that its authority may not sign.
    pub fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), SigningPolicyError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let parsed = chain.iter().filter_map(|der| X509Certificate::from_der(der).ok());
        let names = parsed.map(|(_, one)| {
            (DistinguishedName::of(one.subject()), DistinguishedName::of(one.issuer()))
        });
        let names: Vec<_> = names.collect();
        names.iter().try_for_each(|(subject, issuer)| self.check_name(&names, subject, issuer))
    }

    /// Checks a name against the policy of `issuer`, otherwise against those of all possible
    /// authorities above it. If several certificates have the issuer's name, the chain was verified
    /// with one of them: all are considered.
    fn check_name(
        &self,
        names: &[(DistinguishedName, DistinguishedName)],
        subject: &DistinguishedName,
        issuer: &DistinguishedName,
    ) -> Result<(), SigningPolicyError> {
        // A self-signed authority needs no permission.
        let mut authorities = if subject == issuer { vec![] } else { vec![issuer] };
        let mut at = 0;
        while let Some(authority) = authorities.get(at).copied() {
            at += 1;
            let Some(allowed) = self.0.get(&comparable(&authority.oneline())) else {
                for (_, above) in names.iter().filter(|(name, _)| name == authority) {
                    if !authorities.contains(&above) {
                        authorities.push(above);
                    }
                }
                continue;
            };
            let name = comparable(&subject.oneline());
            if !allowed.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes())) {
                return Err(SigningPolicyError {
                    authority: authority.to_string(),
                    subject: subject.to_string(),
                });
            }
        }
        Ok(())
    }
}

/// Normalizes a name or pattern for comparison: lower case, and one spelling of the types that have
/// several.
fn comparable(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.replace("/emailaddress=", "/email=").replace("/e=", "/email=").replace("/userid=", "/uid=")
}

/// Removes the quotes around a text, if there are any.
fn unquoted(text: &str) -> &str {
    let within = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    within('\'').or_else(|| within('"')).unwrap_or(text)
}

/// The patterns of an entry: several in double quotes, or one.
fn patterns(text: &str) -> Vec<&str> {
    let text = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
    if text.contains('"') {
        return text.split('"').skip(1).step_by(2).collect();
    }
    vec![text]
}

/// Returns true if a name matches a pattern, in which `*` means any text and `?` one byte.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut at = 0;
    let mut in_name = 0;
    // The position at which to continue if the text of the last star has to be longer.
    let mut star = None;
    while let Some(byte) = name.get(in_name) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(expected) if expected == byte || *expected == b'?' => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((star_at, star_in_name)) = star else { return false };
                star = Some((star_at, star_in_name + 1));
                (at, in_name) = (star_at + 1, star_in_name + 1);
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;

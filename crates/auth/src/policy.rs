//! Authorization on a server: the actions that each user may perform.
//!
//! A [`Policy`] is the configuration of a site; [`Policy::authorize`] makes the complete decision,
//! without clock or I/O. Everything that no rule allows is forbidden. An action is allowed if one
//! of these rules allows it:
//!
//! 1. the grants of all clients (`anonymous`), including clients whose token or certificate is
//!    invalid: without it they would get the same grants;
//! 2. the grants of a certificate's holder, by its distinguished name;
//! 3. a token of a trusted issuer. First its times and its audience must be valid: the name of
//!    this server, or one of those that mean every server; a token without audience is rejected.
//!    Then its scope decides ([`crate::Permission`] lists the words); paths in it are relative to
//!    the folders configured for the issuer. If a token has no word about storage, its groups
//!    decide. The WLCG profile requires that: a client that requested less than its groups allow
//!    must not get more.
//!
//! **Paths** are compared by whole components. The path of a request arrives decoded and must be in
//! normal form: a path with `.`, `..` or an empty component is rejected here once more, because the
//! file system might interpret it differently. The path of a scope is percent-encoded, because a
//! scope cannot contain a blank, and is decoded once. If the decoded path of a word is not in
//! normal form (`..`, an encoded slash, NUL, invalid UTF-8), the word allows nothing.
//!
//! **Content of a denial.** The denial of a verified token names the rejected claim: the client
//! knows the claims of its own token. Other clients get no details. No denial reveals the
//! configured issuers, groups or names.

use crate::sanitize::{cleaned, quoted, span};
use crate::token::claims::Claims;
use crate::token::jwt::VerifiedJwt;
use crate::token::scope::{Action, granted_path};
use crate::x509::distinguished_name::DistinguishedName;
use percent_encoding::percent_decode_str;
use std::fmt;
use std::sync::Arc;

/// The audiences that mean every server (WLCG profile, SciTokens).
pub(crate) const EVERY_SERVER: [&str; 2] = ["https://wlcg.cern.ch/jwt/v1/any", "ANY"];
/// Tolerated difference of clocks, in seconds.
const LEEWAY: i64 = 60;
/// Maximum number of words of a scope that are read.
const MAX_WORDS: usize = 1_000;

/// The rules of a site. The default allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The names of this server in the claim `aud`. If there are none, only tokens for every server
    /// are accepted.
    pub audiences: Vec<String>,
    /// The trusted issuers.
    pub issuers: Vec<Issuer>,
    /// The grants of all clients.
    pub anonymous: Vec<Grant>,
    /// The grants of certificate holders, by distinguished name.
    pub certificates: Vec<(DistinguishedName, Grant)>,
}

/// A trusted issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// The URL, as in the claim `iss`.
    pub url: String,
    /// The folders to which the paths of its scopes are relative.
    pub bases: Vec<PathPrefix>,
    /// The grants of its groups, for tokens without a storage scope.
    pub groups: Vec<(String, Grant)>,
}

/// Actions that are allowed in a folder and below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The folder.
    pub folder: PathPrefix,
    /// The actions; `Create` and `Modify` do not include each other.
    pub actions: Vec<Action>,
}

/// A folder of the tree in normal form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathPrefix(Vec<String>);

/// The client that makes a request.
#[derive(Debug, Clone, Default)]
pub struct Principal {
    /// The token of the request.
    pub token: PresentedToken,
    /// The distinguished name of the client's verified certificate, if there is one.
    pub certificate: Option<Arc<DistinguishedName>>,
}

/// The token of a request, if any.
#[derive(Debug, Clone, Default)]
pub enum PresentedToken {
    /// No token.
    #[default]
    Nothing,
    /// A token that could not be verified.
    Invalid,
    /// A token with a verified signature.
    Token(Arc<VerifiedJwt>),
}

/// Reason why an action is not allowed. The text is sent to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// The client has not proved its identity: 401.
    Unauthenticated {
        /// The request had a token, but an invalid one.
        shown: bool,
    },
    /// The token is genuine but not usable now or on this server: 401, with the rejected claim.
    InvalidToken(String),
    /// The client is known and may not perform this action: 403, with the rejected claim.
    Forbidden(String),
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unauthenticated { shown: false } => "a token or certificate is required",
            Self::Unauthenticated { shown: true } => "the token is not valid here",
            Self::InvalidToken(why) | Self::Forbidden(why) => why,
        })
    }
}

impl PathPrefix {
    /// Parses the unencoded path of a folder; leading and trailing slashes are ignored.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        components(path).map(|components| Self(components.map(str::to_owned).collect()))
    }

    /// Parses the path of a scope, which is percent-encoded.
    fn of_scope(path: &str) -> Option<Self> {
        let decoded = path.split('/').filter(|encoded| !encoded.is_empty());
        let decoded = decoded.map(|encoded| {
            let name = percent_decode_str(encoded).decode_utf8().ok()?;
            is_name(&name).then(|| name.into_owned())
        });
        decoded.collect::<Option<Vec<_>>>().map(Self)
    }

    /// Joins the path of a folder below this one.
    fn join(&self, below: &Self) -> Self {
        Self([self.0.as_slice(), below.0.as_slice()].concat())
    }

    /// Returns true if a path, given by its components, is this folder or is below it.
    fn holds(&self, path: &[&str]) -> bool {
        path.len() >= self.0.len() && self.0.iter().zip(path).all(|(name, other)| name == other)
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.join("/"))
    }
}

impl Grant {
    fn allows(&self, action: Action, path: &[&str]) -> bool {
        self.actions.contains(&action) && self.folder.holds(path)
    }
}

/// Splits an unencoded path into components; `None` if it is not in normal form.
fn components(path: &str) -> Option<impl Iterator<Item = &str>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let fine = path.is_empty() || path.split('/').all(is_name);
    fine.then(|| path.split('/').filter(|name| !name.is_empty()))
}

fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

impl Policy {
    /// Decides whether `identity` may do `action` with `path`, which is decoded and absolute within
    /// the tree. `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// The [`Denial`] states the reason for the client.
    pub fn authorize(
        &self,
        identity: &Principal,
        action: Action,
        path: &str,
        now: i64,
    ) -> Result<(), Denial> {
        let Some(components) = components(path) else {
            return Err(Denial::Forbidden("the path is not in normal form".to_owned()));
        };
        let components: Vec<&str> = components.collect();
        if self.anonymous.iter().any(|grant| grant.allows(action, &components)) {
            return Ok(());
        }
        let subject = identity.certificate.as_deref();
        if self
            .certificates
            .iter()
            .any(|(name, grant)| subject == Some(name) && grant.allows(action, &components))
        {
            return Ok(());
        }
        match (&identity.token, subject) {
            (PresentedToken::Token(token), _) => self.token_may(token, action, &components, now),
            (PresentedToken::Invalid, _) => Err(Denial::Unauthenticated { shown: true }),
            (PresentedToken::Nothing, None) => Err(Denial::Unauthenticated { shown: false }),
            (PresentedToken::Nothing, Some(subject)) => Err(Denial::Forbidden(format!(
                "{} /{} is not allowed for {}",
                action.verb(),
                cleaned(&components.join("/")),
                quoted(&subject.to_string())
            ))),
        }
    }

    /// Returns the client's name as an owner: a token's issuer and subject, or the name in a
    /// certificate. A token has a name only while it is usable.
    ///
    /// # Errors
    ///
    /// The [`Denial`] states why there is no name.
    pub fn name(&self, identity: &Principal, now: i64) -> Result<String, Denial> {
        match (&identity.token, &identity.certificate) {
            (PresentedToken::Token(token), _) => {
                self.issuer(token)?;
                check_times(token.claims(), now)?;
                self.check_audience(token.claims())?;
                let subject = token.claims().subject.as_deref();
                let subject = subject
                    .filter(|subject| !subject.is_empty())
                    .ok_or_else(|| Denial::Forbidden("sub: the token has no subject".to_owned()))?;
                Ok(format!("{} {subject}", token.issuer()))
            }
            (_, Some(subject)) => Ok(subject.to_string()),
            (shown, None) => {
                Err(Denial::Unauthenticated { shown: matches!(shown, PresentedToken::Invalid) })
            }
        }
    }

    fn issuer(&self, token: &VerifiedJwt) -> Result<&Issuer, Denial> {
        let issuer = self.issuers.iter().find(|issuer| issuer.url == token.issuer());
        // The keys of this issuer were known just before, so the configuration has changed.
        issuer.ok_or(Denial::Unauthenticated { shown: true })
    }

    /// Returns true if the policy allows changes to any client.
    #[must_use]
    pub fn lets_write(&self) -> bool {
        let writes = |grant: &Grant| {
            grant.actions.iter().any(|action| matches!(action, Action::Create | Action::Modify))
        };
        !self.issuers.is_empty()
            || self.anonymous.iter().any(writes)
            || self.certificates.iter().any(|(_, grant)| writes(grant))
    }

    fn token_may(
        &self,
        token: &VerifiedJwt,
        action: Action,
        path: &[&str],
        now: i64,
    ) -> Result<(), Denial> {
        let issuer = self.issuer(token)?;
        let claims = token.claims();
        check_times(claims, now)?;
        self.check_audience(claims)?;
        let words: Vec<&str> = claims.scope.iter().flatten().map(String::as_str).collect();
        let words = words.get(..MAX_WORDS).unwrap_or(&words);
        if !words.iter().any(|word| is_of_storage(word)) && !claims.groups.is_empty() {
            return groups_may(issuer, claims, action, path);
        }
        scope_may(issuer, words, action, path)
    }

    fn check_audience(&self, claims: &Claims) -> Result<(), Denial> {
        let mut meant = claims.audience.iter();
        if meant.any(|name| EVERY_SERVER.contains(&name.as_str()) || self.audiences.contains(name))
        {
            return Ok(());
        }
        Err(Denial::InvalidToken(if claims.audience.is_empty() {
            "aud: the token has no audience, expected this server".to_owned()
        } else {
            let audience = quoted(&claims.audience.join(" "));
            format!("aud: the token is meant for {audience}, not for this server")
        }))
    }
}

fn check_times(claims: &Claims, now: i64) -> Result<(), Denial> {
    let why = match (claims.expires, claims.not_before, claims.issued) {
        (None, _, _) => "exp: the token has no expiry, expected one".to_owned(),
        (Some(end), _, _) if now >= end.saturating_add(LEEWAY) => {
            format!("exp: the token expired {} ago", span(now.saturating_sub(end)))
        }
        (_, Some(start), _) if now < start.saturating_sub(LEEWAY) => {
            format!("nbf: the token is not valid for another {}", span(start.saturating_sub(now)))
        }
        (_, _, Some(made)) if now < made.saturating_sub(LEEWAY) => {
            let ahead = span(made.saturating_sub(now));
            format!("iat: the token was issued {ahead} in the future, by this server's clock")
        }
        _ => return Ok(()),
    };
    Err(Denial::InvalidToken(why))
}

/// Returns true if a word of a scope refers to storage, valid or not.
fn is_of_storage(word: &str) -> bool {
    let ability = word.split_once(':').map_or(word, |(ability, _)| ability);
    ability.starts_with("storage.") || matches!(ability, "read" | "write")
}

fn scope_may(issuer: &Issuer, words: &[&str], action: Action, path: &[&str]) -> Result<(), Denial> {
    let mut elsewhere = Vec::new();
    for word in words {
        let Some(granted) = granted_path(word, action).and_then(PathPrefix::of_scope) else {
            continue;
        };
        for base in &issuer.bases {
            let folder = base.join(&granted);
            if folder.holds(path) {
                return Ok(());
            }
            elsewhere.push(folder.to_string());
        }
    }
    let path = cleaned(&path.join("/"));
    let verb = action.verb();
    Err(Denial::Forbidden(if elsewhere.is_empty() {
        format!(
            "scope: {} does not allow {verb} /{path}: it needs {} for that path",
            quoted(&words.join(" ")),
            action.wanted()
        )
    } else {
        format!(
            "scope: it allows {verb} below {} only, which does not cover /{path}",
            quoted(&elsewhere.join(" "))
        )
    }))
}

fn groups_may(
    issuer: &Issuer,
    claims: &Claims,
    action: Action,
    path: &[&str],
) -> Result<(), Denial> {
    let allowed = issuer
        .groups
        .iter()
        .any(|(group, grant)| claims.groups.contains(group) && grant.allows(action, path));
    if allowed {
        return Ok(());
    }
    Err(Denial::Forbidden(format!(
        "wlcg.groups: {} does not allow {} /{}, and the token has no storage scope",
        quoted(&claims.groups.join(" ")),
        action.verb(),
        cleaned(&path.join("/"))
    )))
}

#[cfg(test)]
mod tests;

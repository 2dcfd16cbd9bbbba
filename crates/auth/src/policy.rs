//! Who may do what on a server.
//!
//! A [`Policy`] is what a site has configured; [`Policy::authorize`] is the whole decision, without clock or I/O. What nobody
//! allowed is forbidden. An action passes if any of these lets it:
//!
//! 1. what everybody may do (`anonymous`), also for those whose token or certificate is of no use: they could as well have
//!    sent none;
//! 2. what the holder of a certificate may do, by its distinguished name;
//! 3. a token of an issuer that is trusted here. First its times and its audience must be right: this server's name, or one
//!    of those that mean every server; a token for nobody in particular is refused. Then its scope decides ([`crate::Permission`]
//!    has the words); paths in it count from the folders that are configured for the issuer. Only a token without any word
//!    about storage is judged by its groups, as the profile of WLCG has it: whoever asked for less than the group may do
//!    shall not have more.
//!
//! **Paths** are compared in whole components. The path of a request comes decoded, and must be in normal form: one with
//! `.`, `..` or an empty component is refused, here once more, as the file system might read it in another way. The path
//! of a scope is percent-encoded, since a scope cannot hold a blank, and is decoded once. A word whose path is not in
//! normal form after that (`..`, an encoded slash, NUL, no UTF-8) allows nothing.
//!
//! **What a refusal says.** Whoever shows a token with a right signature is told which claim is to blame: it is theirs, and
//! all they learn is what is in it. Others are told nothing, and nobody is told which issuers, groups or names are known
//! here.

use crate::sanitize::{cleaned, quoted, span};
use crate::token::claims::Claims;
use crate::token::jwt::VerifiedJwt;
use crate::token::scope::{Action, granted_path};
use percent_encoding::percent_decode_str;
use std::fmt;
use std::sync::Arc;

/// The audiences that mean every server (WLCG profile, SciTokens).
pub(crate) const EVERY_SERVER: [&str; 2] = ["https://wlcg.cern.ch/jwt/v1/any", "ANY"];
/// Seconds that clocks may differ.
const LEEWAY: i64 = 60;
/// Words of a scope that are looked at.
const MAX_WORDS: usize = 1_000;

/// Who may do what. By default nobody may do anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The names of this server in the claim `aud`. Without one, only tokens for every server are taken.
    pub audiences: Vec<String>,
    /// Whose tokens are believed.
    pub issuers: Vec<Issuer>,
    /// What everybody may do.
    pub anonymous: Vec<Grant>,
    /// What the holders of certificates may do, by distinguished name.
    pub certificates: Vec<(String, Grant)>,
}

/// Somebody whose tokens are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// As it stands in the claim `iss`.
    pub url: String,
    /// Where the paths of its scopes count from.
    pub bases: Vec<PathPrefix>,
    /// What members of its groups may do with a token that has no scope for storage.
    pub groups: Vec<(String, Grant)>,
}

/// Some actions, in a folder and below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Where.
    pub folder: PathPrefix,
    /// What; `Create` and `Modify` do not include one another.
    pub actions: Vec<Action>,
}

/// A folder of the tree in normal form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathPrefix(Vec<String>);

/// Who asks.
#[derive(Debug, Clone, Default)]
pub struct Principal {
    /// The token that came with the request.
    pub token: PresentedToken,
    /// The distinguished name of the client's certificate, if there was one and it was verified.
    pub certificate: Option<Arc<str>>,
}

/// What came in place of a token.
#[derive(Debug, Clone, Default)]
pub enum PresentedToken {
    /// None.
    #[default]
    Nothing,
    /// One that is not believed.
    Invalid,
    /// One with a right signature.
    Token(Arc<VerifiedJwt>),
}

/// Why something may not be done. The text is for whoever asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// Nothing that proves who asks: 401.
    Unauthenticated {
        /// Whether there was a token, though of no use.
        shown: bool,
    },
    /// A token that is real, but not to be used here and now: 401, with the claim that is to blame.
    InvalidToken(String),
    /// It is known who asks, and that is not allowed: 403, with the claim that is to blame.
    Forbidden(String),
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unauthenticated { shown: false } => "a token or certificate is needed for that",
            Self::Unauthenticated { shown: true } => "the token is not valid here",
            Self::InvalidToken(why) | Self::Forbidden(why) => why,
        })
    }
}

impl PathPrefix {
    /// A folder by its path, as it is called on disk; a slash in front or at the end is of no matter.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        components(path).map(|components| Self(components.map(str::to_owned).collect()))
    }

    /// The path in a scope: percent-encoded.
    fn of_scope(path: &str) -> Option<Self> {
        let decoded = path.split('/').filter(|encoded| !encoded.is_empty());
        let decoded = decoded.map(|encoded| {
            let name = percent_decode_str(encoded).decode_utf8().ok()?;
            is_name(&name).then(|| name.into_owned())
        });
        decoded.collect::<Option<Vec<_>>>().map(Self)
    }

    /// A folder within this one.
    fn join(&self, below: &Self) -> Self {
        Self([self.0.as_slice(), below.0.as_slice()].concat())
    }

    /// Whether a path, given by its components, is this or in this.
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

/// The components of a path that is not encoded; none if it is not in normal form.
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
    /// Whether `identity` may do `action` with `path`, which is decoded and counts from the root of the tree. `now` is in
    /// seconds since 1970.
    ///
    /// # Errors
    ///
    /// The [`Denial`] says why not, in words for whoever asks.
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
        if self.certificates.iter().any(|(name, grant)| {
            subject == Some(name.as_str()) && grant.allows(action, &components)
        }) {
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
                quoted(subject)
            ))),
        }
    }

    /// What to call whoever asks, in a list of things that belong to people: a token's subject and issuer, or the name in a
    /// certificate. Only a token that could be used now has a name.
    ///
    /// # Errors
    ///
    /// The [`Denial`] says why there is none.
    pub fn name(&self, identity: &Principal, now: i64) -> Result<String, Denial> {
        match (&identity.token, &identity.certificate) {
            (PresentedToken::Token(token), _) => {
                self.issuer(token)?;
                check_times(token.claims(), now)?;
                self.check_audience(token.claims())?;
                let subject = token.claims().subject.as_deref();
                let subject = subject.filter(|subject| !subject.is_empty()).ok_or_else(|| {
                    Denial::Forbidden("sub: the token does not say whose it is".to_owned())
                })?;
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
        // Its keys were known a moment ago: the configuration has changed.
        issuer.ok_or(Denial::Unauthenticated { shown: true })
    }

    /// Whether anybody at all may change something.
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
        Err(Denial::InvalidToken(match claims.audience.is_empty() {
            true => {
                "aud: the token is for no server in particular, expected one for this server".into()
            }
            false => {
                let audience = quoted(&claims.audience.join(" "));
                format!("aud: the token is meant for {audience}, which is no name of this server")
            }
        }))
    }
}

fn check_times(claims: &Claims, now: i64) -> Result<(), Denial> {
    let why = match (claims.expires, claims.not_before, claims.issued) {
        (None, _, _) => "exp: the token has no end, expected one".to_owned(),
        (Some(end), _, _) if now >= end.saturating_add(LEEWAY) => {
            format!("exp: the token expired {} ago", span(now.saturating_sub(end)))
        }
        (_, Some(start), _) if now < start.saturating_sub(LEEWAY) => {
            format!("nbf: the token is valid only in {}", span(start.saturating_sub(now)))
        }
        (_, _, Some(made)) if now < made.saturating_sub(LEEWAY) => {
            let ahead = span(made.saturating_sub(now));
            format!("iat: the token was made {ahead} in the future, by the clock of this server")
        }
        _ => return Ok(()),
    };
    Err(Denial::InvalidToken(why))
}

/// Whether a word of a scope is about storage, valid or not.
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
    Err(Denial::Forbidden(match elsewhere.is_empty() {
        true => format!(
            "scope: {} does not allow {verb} /{path}: it needs {} for that path",
            quoted(&words.join(" ")),
            action.wanted()
        ),
        false => format!(
            "scope: it allows {verb} below {} only, which does not cover /{path}",
            quoted(&elsewhere.join(" "))
        ),
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
        "wlcg.groups: {} does not allow {} /{}, and there is no scope for storage",
        quoted(&claims.groups.join(" ")),
        action.verb(),
        cleaned(&path.join("/"))
    )))
}

#[cfg(test)]
mod tests;

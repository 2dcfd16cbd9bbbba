//! Why a server said no, as far as it can be known from here.
//!
//! Servers say 401 or 403 and rarely more. But the client knows what it sent, and for a token it can read the claims and
//! compare them with what was asked. The explanation is a clause for the end of an error message:
//!
//! - what was sent, where it came from, and whose it is; or that nothing was sent, why, and where was looked;
//! - for a token, the claims that the server is likely to blame: expired or not valid yet (by this machine's clock),
//!   meant for other servers, for other actions or paths;
//! - what the server said of it in `WWW-Authenticate` (RFC 6750 section 3), if it did.
//!
//! What comes from tokens and servers is shortened, and freed of control characters and of the secret itself.

use crate::credentials::{CachedToken, ChosenCredential, Credentials, WithholdReason, seconds};
use crate::origin::Origin;
use crate::policy::EVERY_SERVER;
use crate::sanitize::{cleaned, quoted, span};
use crate::token::claims::{Claims, MalformedJwt};
use crate::token::scope::{Action, Permission, without_path};
use crate::x509::client_certificate::ClientCertificate;
use std::time::SystemTime;

/// A request that was refused.
#[derive(Debug, Clone, Copy)]
pub struct RejectedRequest<'a> {
    /// The origin of the URL that the user gave.
    pub asked: &'a Origin,
    /// The one that refused: another one after a redirect.
    pub at: &'a Origin,
    /// What was to be done.
    pub action: Action,
    /// Path of the URL, percent-encoded or not.
    pub path: &'a str,
    /// Status of the answer: 401 or 403.
    pub status: u16,
    /// The field `WWW-Authenticate` of the answer.
    pub challenge: Option<&'a str>,
}

impl Credentials {
    /// Explains a refusal. May read the certificate's files.
    #[must_use]
    pub fn explain_rejection(&self, refusal: &RejectedRequest<'_>, now: SystemTime) -> String {
        let RejectedRequest { asked, at, .. } = *refusal;
        let (chosen, mut problems) = self.chosen_for(asked);
        let mut clauses = match (&chosen, self.withheld(asked, at)) {
            (ChosenCredential::Nothing, _) => vec![self.nothing(refusal)],
            (chosen, Some(why)) => vec![withheld(chosen, why, refusal)],
            (ChosenCredential::Basic(basic, place), None) => {
                let user = quoted(basic.user());
                vec![match refusal.status {
                    401 => format!("it does not take the password of user {user} from {place}"),
                    _ => format!("{} is not allowed for user {user}", refusal.action.verb()),
                }]
            }
            (ChosenCredential::Token(held), None) => token(held, refusal, seconds(now)),
        };
        let certificate = match self.withheld(asked, at).is_none() && at.is_encrypted() {
            true => self.load_certificate(now, &mut problems),
            false => Ok(None),
        };
        match &certificate {
            Ok(Some(certificate)) => clauses.push(self.shown(certificate, seconds(now))),
            Ok(None) => {}
            Err(error) => problems.push(error.line()),
        }
        clauses.extend(problems);
        clauses.extend(refusal.challenge.and_then(|challenge| said(challenge, &chosen)));
        clauses.join("; ")
    }

    fn nothing(&self, refusal: &RejectedRequest<'_>) -> String {
        let config = self.config();
        let mut places = config.token.as_ref().map(|source| source.places()).unwrap_or_default();
        places.extend(config.netrc.as_ref().map(|path| path.display().to_string()));
        if places.is_empty() {
            return "no token or password was sent, as none is configured".to_owned();
        }
        let places = places.join(", ");
        match refusal.status {
            401 => format!("it wants credentials, and none was found in {places}"),
            _ => format!("no token or password was sent, as none was found in {places}"),
        }
    }

    fn shown(&self, certificate: &ClientCertificate, now: i64) -> String {
        let summary = &certificate.summary;
        let place =
            self.config().certificate.as_ref().map(|source| source.place().display().to_string());
        format!(
            "it could have asked for the client certificate of {} from {}, valid for another {}",
            quoted(&summary.subject),
            place.unwrap_or_default(),
            span(summary.not_after.saturating_sub(now))
        )
    }
}

fn withheld(
    chosen: &ChosenCredential,
    why: WithholdReason,
    refusal: &RejectedRequest<'_>,
) -> String {
    let what = match chosen {
        ChosenCredential::Token(held) => format!("the token from {}", held.place),
        _ => "the password".to_owned(),
    };
    let RejectedRequest { asked, at, .. } = refusal;
    match why {
        WithholdReason::Redirected => format!(
            "{what} was not sent: it is meant for {asked}, and the redirect led to {at}; allow it to follow to {} if both \
             belong together",
            at.host()
        ),
        WithholdReason::Plain => format!(
            "{what} was not sent, as everybody on the way could read it over plain http: use https:// if the server has it"
        ),
    }
}

/// What was sent and whose it is, and what of it is to blame.
fn token(held: &CachedToken, refusal: &RejectedRequest<'_>, now: i64) -> Vec<String> {
    let claims = match &held.claims {
        Ok(claims) => claims,
        Err(reason @ MalformedJwt::Damaged) => {
            return vec![format!("it does not take the token from {}: {reason}", held.place)];
        }
        Err(reason) => {
            return vec![format!("it does not take the token from {}; {reason}", held.place)];
        }
    };
    let owner = [("subject", &claims.subject), ("issuer", &claims.issuer)];
    let owner: Vec<_> = owner
        .into_iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name} {}", quoted(value))))
        .collect();
    let owner = match owner.is_empty() {
        true => String::new(),
        false => format!(" ({})", owner.join(", ")),
    };
    let blamed = blamed(claims, refusal, now);
    let sent = format!("it does not take the token from {}{owner}", held.place);
    match blamed.is_empty() {
        false => vec![format!("{sent}: {}", blamed.join(", and "))],
        true => vec![format!("{sent}, although its claims look right: {}", summary(claims, now))],
    }
}

fn summary(claims: &Claims, now: i64) -> String {
    let validity = match claims.expires {
        Some(expires) => format!("valid for another {}", span(expires.saturating_sub(now))),
        None => "without an end".to_owned(),
    };
    let audience = match claims.audience.is_empty() {
        true => "no audience".to_owned(),
        false => format!("audience {}", quoted(&claims.audience.join(" "))),
    };
    let scope = match &claims.scope {
        Some(scope) => format!("scope {}", quoted(&scope.join(" "))),
        None => "no scope".to_owned(),
    };
    format!("{validity}, {audience}, {scope}")
}

/// The claims that do not fit the request.
fn blamed(claims: &Claims, refusal: &RejectedRequest<'_>, now: i64) -> Vec<String> {
    let mut blamed = Vec::new();
    if let Some(expires) = claims.expires.filter(|&expires| now >= expires) {
        blamed.push(format!("it expired {} ago (exp)", span(now.saturating_sub(expires))));
    }
    if let Some(start) = claims.not_before.filter(|&start| now < start) {
        let wait = span(start.saturating_sub(now));
        blamed.push(format!(
            "it is valid only in {wait} (nbf), if the clock of this machine is right"
        ));
    }
    let meant = |audience: &String| {
        is_meant_for(audience, refusal.at) || is_meant_for(audience, refusal.asked)
    };
    if !claims.audience.is_empty() && !claims.audience.iter().any(meant) {
        let audience = quoted(&claims.audience.join(" "));
        blamed.push(format!("it is meant for {audience} (aud), and this server is {}", refusal.at));
    }
    if let Some(scope) = &claims.scope {
        blamed.extend(scope_to_blame(scope, refusal));
    }
    blamed
}

fn scope_to_blame(scope: &[String], refusal: &RejectedRequest<'_>) -> Option<String> {
    let RejectedRequest { action, path, .. } = *refusal;
    let path = quoted(path);
    match Permission::of(scope, action, refusal.path) {
        Permission::Granted => None,
        Permission::GrantedBelow { base } => Some(format!(
            "its scope {} covers {path} only if the server counts the paths of this issuer from {}",
            quoted(&scope.join(" ")),
            quoted(&base)
        )),
        Permission::OtherPaths { paths } => Some(format!(
            "its scope allows {} below {} only, which does not cover {path} (scope)",
            action.verb(),
            quoted(&paths.join(" "))
        )),
        Permission::OtherActions => {
            let invalid: Vec<_> = without_path(scope).collect();
            let hint = match invalid.is_empty() {
                true => String::new(),
                false => format!(" ({} without a path is invalid)", quoted(&invalid.join(" "))),
            };
            Some(format!(
                "its scope {} does not allow {}{hint}: {}:{path} or a folder above it is needed (scope)",
                quoted(&scope.join(" ")),
                action.verb(),
                action.wanted()
            ))
        }
    }
}

/// Whether an audience names the server: as URL, as host, or as host and port.
fn is_meant_for(audience: &str, server: &Origin) -> bool {
    if EVERY_SERVER.contains(&audience) {
        return true;
    }
    if audience.contains("://") {
        return Origin::parse(audience)
            .is_ok_and(|meant| meant.host() == server.host() && meant.port() == server.port());
    }
    let host = match audience.rsplit_once(':') {
        Some((host, port)) if port.parse() == Ok(server.port()) => host,
        _ => audience,
    };
    host.trim_matches(['[', ']']).eq_ignore_ascii_case(server.host())
}

/// What the server said: the kinds of credentials that it takes, and its word on what was wrong.
fn said(challenge: &str, chosen: &ChosenCredential) -> Option<String> {
    let challenge = match chosen {
        ChosenCredential::Token(held) => held.token.redacted(challenge),
        ChosenCredential::Basic(basic, _) => basic.redacted(challenge),
        ChosenCredential::Nothing => challenge.to_owned(),
    };
    let challenge = challenge.trim();
    (!challenge.is_empty()).then(|| format!("the server says: {}", cleaned(challenge)))
}

#[cfg(test)]
mod tests;

//! Explanation of a rejected request (401, 403), as far as the client can know the reason.
//!
//! Servers answer 401 or 403 and rarely state more. If one does, its reason stands, and the
//! explanation only says which credential was sent. Otherwise the client knows the credential that
//! it sent, and can compare the claims of a token with the request. The explanation is a clause for
//! the end of an error message:
//!
//! - the credential that was sent, its source, and its owner; or that none was sent, why, and the
//!   sources that were searched;
//! - for a token, the claims that the server probably rejected: expired or not valid yet (by this
//!   machine's clock), meant for other servers, for other actions or paths;
//! - the server's own reason from `WWW-Authenticate` (RFC 6750 section 3), if there is one.
//!
//! Text from tokens and servers is shortened; control characters and the secret itself are removed.

use crate::credentials::{CachedToken, ChosenCredential, Credentials, WithholdReason, seconds};
use crate::origin::Origin;
use crate::policy::EVERY_SERVER;
use crate::sanitize::{cleaned, quoted, span};
use crate::token::claims::{Claims, MalformedJwt};
use crate::token::scope::{Action, Permission, without_path};
use crate::x509::client_certificate::ClientCertificate;
use std::time::SystemTime;

/// A request that a server rejected.
#[derive(Debug, Clone, Copy)]
pub struct RejectedRequest<'a> {
    /// Origin of the URL that the user gave.
    pub requested: &'a Origin,
    /// Origin that rejected the request; differs from `requested` after a redirect.
    pub at: &'a Origin,
    /// The operation that was requested.
    pub action: Action,
    /// Path of the URL, percent-encoded or not.
    pub path: &'a str,
    /// Status of the response: 401 or 403.
    pub status: u16,
    /// The field `WWW-Authenticate` of the response.
    pub challenge: Option<&'a str>,
    /// The server has stated its reason, so that nothing is to be guessed.
    pub is_explained: bool,
}

impl Credentials {
    /// Explains a rejected request. May read the certificate's files.
    #[must_use]
    pub fn explain_rejection(&self, rejected: &RejectedRequest<'_>, now: SystemTime) -> String {
        let RejectedRequest { requested, at, is_explained, .. } = *rejected;
        let (chosen, mut problems) = self.chosen_for(requested);
        let mut clauses = match (&chosen, self.withheld(requested, at)) {
            (ChosenCredential::Nothing, _) if is_explained && rejected.status != 401 => Vec::new(),
            (ChosenCredential::Nothing, _) => vec![self.nothing(rejected)],
            (chosen, Some(why)) => vec![withheld(chosen, why, rejected)],
            (ChosenCredential::Basic(basic, place), None) => {
                let user = quoted(basic.user());
                vec![match rejected.status {
                    401 => format!("the password of user {user} from {place} was rejected"),
                    _ if is_explained => format!("the password of user {user} was sent"),
                    _ => format!("{} is not allowed for user {user}", rejected.action.verb()),
                }]
            }
            (ChosenCredential::Token(cached), None) => token(cached, rejected, seconds(now)),
        };
        let withheld = self.withheld(requested, at).is_some();
        let certificate = if withheld || is_explained || !at.is_encrypted() {
            Ok(None)
        } else {
            self.load_certificate(now, &mut problems)
        };
        match &certificate {
            Ok(Some(certificate)) => clauses.push(self.shown(certificate, seconds(now))),
            Ok(None) => {}
            Err(error) => problems.push(error.line()),
        }
        clauses.extend(problems);
        clauses
            .extend(rejected.challenge.and_then(|challenge| challenge_reason(challenge, &chosen)));
        clauses.join("; ")
    }

    fn nothing(&self, rejected: &RejectedRequest<'_>) -> String {
        let config = self.config();
        let mut places = config.token.as_ref().map(|source| source.places()).unwrap_or_default();
        places.extend(config.netrc.as_ref().map(|path| path.display().to_string()));
        if places.is_empty() {
            return "no token or password was sent: none is configured".to_owned();
        }
        let places = places.join(", ");
        match rejected.status {
            401 => format!("credentials are required, and none was found in {places}"),
            _ => format!("no token or password was sent: none was found in {places}"),
        }
    }

    fn shown(&self, certificate: &ClientCertificate, now: i64) -> String {
        let summary = &certificate.summary;
        let place =
            self.config().certificate.as_ref().map(|source| source.place().display().to_string());
        format!(
            "the server could have requested the client certificate of {} from {}, valid for another {}",
            quoted(&summary.subject),
            place.unwrap_or_default(),
            span(summary.not_after.saturating_sub(now))
        )
    }
}

fn withheld(
    chosen: &ChosenCredential,
    why: WithholdReason,
    rejected: &RejectedRequest<'_>,
) -> String {
    let what = match chosen {
        ChosenCredential::Token(cached) => format!("the token from {}", cached.place),
        _ => "the password".to_owned(),
    };
    let RejectedRequest { requested, at, .. } = rejected;
    match why {
        WithholdReason::Redirected if requested.is_document() => format!(
            "{what} was not sent: a document named {at}; allow it to follow to {} if you trust that server",
            at.host()
        ),
        WithholdReason::Redirected if !at.is_as_safe_as(requested) => {
            format!("{what} was not sent: it is meant for {requested}, and {at} does not encrypt")
        }
        WithholdReason::Redirected => format!(
            "{what} was not sent: it is meant for {requested}, and the redirect led to {at}; allow it to follow to {} if both \
             belong together",
            at.host()
        ),
        WithholdReason::Plain => format!(
            "{what} was not sent, because everybody on the path could read it over plain http: use https:// if the server has it"
        ),
    }
}

/// Explains which token was sent, who owns it, and which of its claims the server may have
/// rejected.
fn token(cached: &CachedToken, rejected: &RejectedRequest<'_>, now: i64) -> Vec<String> {
    let claims = match &cached.claims {
        Ok(claims) => claims,
        Err(reason @ MalformedJwt::Damaged) => {
            return vec![format!("the token from {} was rejected: {reason}", cached.place)];
        }
        Err(reason) => {
            return vec![format!("the token from {} was rejected; {reason}", cached.place)];
        }
    };
    let owner = [("subject", &claims.subject), ("issuer", &claims.issuer)];
    let owner: Vec<_> = owner
        .into_iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name} {}", quoted(value))))
        .collect();
    let owner = if owner.is_empty() { String::new() } else { format!(" ({})", owner.join(", ")) };
    if rejected.is_explained {
        return vec![format!("the token from {}{owner} was sent", cached.place)];
    }
    let blamed = blamed(claims, rejected, now);
    let sent = format!("the token from {}{owner} was rejected", cached.place);
    if blamed.is_empty() {
        vec![format!("{sent} although its claims look right: {}", summary(claims, now))]
    } else {
        vec![format!("{sent}: {}", blamed.join(", and "))]
    }
}

fn summary(claims: &Claims, now: i64) -> String {
    let validity = match claims.expires {
        Some(expires) => format!("valid for another {}", span(expires.saturating_sub(now))),
        None => "no expiry".to_owned(),
    };
    let audience = if claims.audience.is_empty() {
        "no audience".to_owned()
    } else {
        format!("audience {}", quoted(&claims.audience.join(" ")))
    };
    let scope = match &claims.scope {
        Some(scope) => format!("scope {}", quoted(&scope.join(" "))),
        None => "no scope".to_owned(),
    };
    format!("{validity}, {audience}, {scope}")
}

/// The claims that do not match the request.
fn blamed(claims: &Claims, rejected: &RejectedRequest<'_>, now: i64) -> Vec<String> {
    let mut blamed = Vec::new();
    if let Some(expires) = claims.expires.filter(|&expires| now >= expires) {
        blamed.push(format!("it expired {} ago (exp)", span(now.saturating_sub(expires))));
    }
    if let Some(start) = claims.not_before.filter(|&start| now < start) {
        let wait = span(start.saturating_sub(now));
        blamed.push(format!(
            "it is not valid for another {wait} (nbf), if this machine's clock is right"
        ));
    }
    let meant = |audience: &String| {
        is_meant_for(audience, rejected.at) || is_meant_for(audience, rejected.requested)
    };
    if !claims.audience.is_empty() && !claims.audience.iter().any(meant) {
        let audience = quoted(&claims.audience.join(" "));
        blamed
            .push(format!("it is meant for {audience} (aud), and this server is {}", rejected.at));
    }
    if let Some(scope) = &claims.scope {
        blamed.extend(scope_to_blame(scope, rejected));
    }
    blamed
}

fn scope_to_blame(scope: &[String], rejected: &RejectedRequest<'_>) -> Option<String> {
    let RejectedRequest { action, path, .. } = *rejected;
    let path = quoted(path);
    match Permission::of(scope, action, rejected.path) {
        Permission::Granted => None,
        Permission::GrantedBelow { base } => Some(format!(
            "its scope {} covers {path} only if the server's base path for this issuer is {}",
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
            let hint = if invalid.is_empty() {
                String::new()
            } else {
                format!(" ({} without a path is invalid)", quoted(&invalid.join(" ")))
            };
            Some(format!(
                "its scope {} does not allow {}{hint}: it needs {}:{path} or a parent folder (scope)",
                quoted(&scope.join(" ")),
                action.verb(),
                action.wanted()
            ))
        }
    }
}

/// Returns true if an audience names the server: as URL, as host, or as host and port.
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

/// The server's reason: the schemes that it accepts, and its message.
fn challenge_reason(challenge: &str, chosen: &ChosenCredential) -> Option<String> {
    let challenge = match chosen {
        ChosenCredential::Token(cached) => cached.token.redacted(challenge),
        ChosenCredential::Basic(basic, _) => basic.redacted(challenge),
        ChosenCredential::Nothing => challenge.to_owned(),
    };
    let challenge = challenge.trim();
    (!challenge.is_empty()).then(|| format!("the server says: {}", cleaned(challenge)))
}

#[cfg(test)]
mod tests;

//! Who we are: tokens, passwords and certificates, to whom they may be shown, and why a server refused them.
//!
//! No sockets, no clock, no runtime. The environment and the time come in as values; files are read and the user's
//! command is run, as that is where credentials come from. A client verifies no token: what it looks at, it looks at to
//! renew a token in time, and to tell the user which of its claims is to blame. A server does, and decides what they allow.
//!
//! - [`CredentialConfig`] says where to look, [`CredentialConfig::discover`] fills it from an [`Environment`];
//! - [`Credentials`] answers what to send where, renews it, and explains refusals;
//! - [`Claims`] and [`Permission`] are what a token says of itself;
//! - [`ClientCertificate`] and [`TrustAnchors`] are what TLS needs;
//! - for servers, [`UnverifiedJwt`] is believed if one of a [`Jwks`] signed it, and [`Policy`] says who may do what.
//!
//! ```
//! use hither_auth::{Authorization, CredentialConfig, Credentials, Origin, Secret, TokenSource};
//! use std::time::SystemTime;
//!
//! let now = SystemTime::now();
//! let mut config = CredentialConfig::default();
//! config.token = Some(TokenSource::Value(Secret::new("opaque")));
//! let credentials = Credentials::new(config);
//! let host = Origin::parse("https://host/file")?;
//! let elsewhere = Origin::parse("https://elsewhere/file")?;
//!
//! let Authorization::NeedsRefresh(serial) = credentials.authorization(&host, &host, now) else { panic!() };
//! credentials.refresh(serial, now)?;
//! let Authorization::Ready(header, _) = credentials.authorization(&host, &host, now) else { panic!() };
//! assert_eq!(header.expose(), "Bearer opaque");
//! assert_eq!(header.to_string(), "(secret)");
//! // A redirect does not carry it to others.
//! assert!(matches!(credentials.authorization(&host, &elsewhere, now), Authorization::Nothing(_)));
//! # Ok::<(), hither_auth::AuthError>(())
//! ```

mod credentials;
mod environment;
mod error;
mod origin;
mod policy;
mod private_file;
mod sanitize;
mod secret;
mod token;
pub(crate) mod x509;

pub use crate::x509::client_certificate::{CertificateSource, ClientCertificate};
pub use crate::x509::proxy_chain::{
    ProxyChainError, end_entity_index, not_after_of, public_key_of, subject_of,
};
pub use crate::x509::trust_anchors::{TrustAnchors, TrustConfig};
pub use credentials::basic::Basic;
pub use credentials::config::CredentialConfig;
pub use credentials::explain_rejection::RejectedRequest;
pub use credentials::redirect_hosts::HostPattern;
pub use credentials::{Authorization, Credentials, TokenGeneration};
pub use environment::Environment;
pub use error::{AuthError, Result};
pub use origin::Origin;
pub use policy::{Denial, Grant, Issuer, PathPrefix, Policy, PresentedToken, Principal};
pub use secret::Secret;
pub use token::claims::{Claims, MalformedJwt};
pub use token::jwks::{Jwks, JwksError};
pub use token::jwt::{JwtError, UnverifiedJwt, VerifiedJwt};
pub use token::scope::{Action, Permission};
pub use token::source::TokenSource;

//! Credentials of clients and authorization on servers: tokens, passwords, certificates, policies.
//!
//! No sockets, no clock, no runtime: the environment and the time are arguments. This crate reads
//! files and runs the user's token command, because these are the sources of credentials. A client
//! does not verify tokens: it reads the claims to renew a token in time, and to tell the user which
//! claim a server rejected. A server verifies tokens and decides what they allow.
//!
//! - [`CredentialConfig`] names the sources; [`CredentialConfig::discover`] fills it from an
//!   [`Environment`].
//! - [`Credentials`] selects the credential for each server, renews it, and explains rejected
//!   requests.
//! - [`Claims`] and [`Permission`] are the content of a token and the meaning of its scope.
//! - [`ClientCertificate`] and [`TrustAnchors`] are for TLS.
//! - For servers: [`UnverifiedJwt`] becomes a [`VerifiedJwt`] with the issuer's [`Jwks`], and
//!   [`Policy`] decides.
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
//! // Nothing has been read yet: the caller refreshes on a thread that may block, then calls again.
//! let Authorization::NeedsRefresh(token) = credentials.authorization(&host, &host, now) else {
//!     panic!()
//! };
//! credentials.refresh(token, now)?;
//! let Authorization::Ready(header, _) = credentials.authorization(&host, &host, now) else {
//!     panic!()
//! };
//! assert_eq!(header.expose(), "Bearer opaque");
//! assert_eq!(header.to_string(), "(secret)");
//! // A redirect does not carry the token to another host.
//! let after_redirect = credentials.authorization(&host, &elsewhere, now);
//! assert!(matches!(after_redirect, Authorization::Nothing(_)));
//! # Ok::<(), hither_auth::AuthError>(())
//! ```
//!
//! # Where to start reading
//!
//! - authorization on the server: `src/policy.rs`, then `crates/server/src/authorization.rs`.

mod aws_profile;
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

pub use crate::x509::client_certificate::{CertificateSource, ClientCertificate, server_key};
pub use crate::x509::distinguished_name::DistinguishedName;
pub use crate::x509::proxy_chain::{
    ProxyChainError, end_entity_index, not_after_of, public_key_of, subject_of,
};
pub use crate::x509::revocation_lists::{RevocationError, RevocationLists, RevocationStatus};
pub use crate::x509::signing_policy::{SigningPolicies, SigningPolicyError};
pub use crate::x509::trust_anchors::{TrustAnchors, TrustConfig};
pub use aws_profile::{AwsKeys, AwsProfile, AwsProfileSource};
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

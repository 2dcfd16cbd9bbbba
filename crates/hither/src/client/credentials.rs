//! Precedence of credentials: options, the environment of grid jobs, configuration file.

pub(crate) mod password_prompt;
#[cfg(feature = "s3")]
pub(crate) mod s3;

use crate::client::options::{ClientOptions, variable};
use hither_auth::{
    AuthError, Basic, CertificateSource, CredentialConfig, Credentials, Environment, HostPattern,
    Secret, TokenSource,
};
use hither_core::error::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// The environment variables of object stores, as Amazon's programs read them.
pub(crate) const S3_VARIABLES: [&str; 7] = [
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];

impl ClientOptions {
    /// Fails if a named file does not exist. Otherwise only a request that needs it would report
    /// that, and some need none, such as those to http://.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unauthenticated`] for a credential, [`ErrorKind::Local`] for authorities.
    pub(crate) fn check_files(&self) -> Result<()> {
        for (what, path, kind) in [
            ("token file", &self.token_file, ErrorKind::Unauthenticated),
            ("client certificate", &self.cert, ErrorKind::Unauthenticated),
            ("key", &self.key, ErrorKind::Unauthenticated),
            ("X.509 proxy", &self.proxy_cert, ErrorKind::Unauthenticated),
            ("bundle of authorities", &self.ca, ErrorKind::Local),
            ("folder of authorities", &self.ca_dir, ErrorKind::Local),
        ] {
            let Some(path) = path else { continue };
            std::fs::metadata(path).map_err(|error| {
                let what = format!("cannot read the {what} {}", path.display());
                Error::new(kind, what).with_source(error)
            })?;
        }
        Ok(())
    }
}

/// The credentials that a client uses.
pub(crate) fn credentials(
    options: ClientOptions,
    environment: &Environment,
    file: ClientOptions,
) -> Result<Credentials> {
    let mut config = CredentialConfig::discover(environment);
    let is_set = |names: [&str; 2]| names.iter().any(|name| variable(environment, name).is_some());
    if let Some(token) = options.token {
        config.token = Some(TokenSource::Value(token));
    } else if let Some(token) = token(options.token_file, options.token_command.as_ref()) {
        config.token = Some(token);
    } else if options.user.is_some() {
        // A user name in the options takes precedence over a discovered token.
        config.token = None;
    } else if !is_set(["BEARER_TOKEN", "BEARER_TOKEN_FILE"])
        && let Some(token) = token(file.token_file, file.token_command.as_ref())
    {
        config.token = Some(token);
    }
    if let Some(user) = options.user {
        let password = options.password.ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("no password was given for user {user}"))
        })?;
        config.basic = Some(Basic::new(&user, password).map_err(unusable)?);
    }
    let key = environment.path("X509_USER_KEY");
    let given = certificate(options.cert, options.key.or_else(|| key.clone()), options.proxy_cert);
    if given.is_some() {
        config.certificate = given;
    } else if !is_set(["X509_USER_PROXY", "X509_USER_CERT"])
        && let Some(source) = certificate(file.cert, file.key.or(key), file.proxy_cert)
    {
        config.certificate = Some(source);
    }
    if options.ca_dir.is_some() || config.trust.folder.is_none() {
        config.trust.folder = options.ca_dir.or(file.ca_dir);
        config.trust.folder_variable = None;
    }
    config.trust.bundle = options.ca.or(file.ca);
    for pattern in options.share_credentials.iter().chain(&file.share_credentials) {
        config.follow.push(HostPattern::parse(pattern).map_err(unusable)?);
    }
    config.over_plain_http = options.credentials_over_http || file.credentials_over_http;
    if options.anonymous {
        config.token = None;
        config.basic = None;
        config.netrc = None;
        config.certificate = None;
    }
    Ok(Credentials::new(config))
}

fn token(file: Option<PathBuf>, command: Option<&Secret>) -> Option<TokenSource> {
    command.map(|it| TokenSource::command(it.expose())).or_else(|| file.map(TokenSource::File))
}

fn certificate(
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    proxy: Option<PathBuf>,
) -> Option<CertificateSource> {
    let files = |certificate: PathBuf| CertificateSource::Files {
        key: key.unwrap_or_else(|| Path::to_owned(&certificate)),
        certificate,
    };
    proxy.map(CertificateSource::Proxy).or_else(|| certificate.map(files))
}

fn unusable(error: AuthError) -> Error {
    Error::new(ErrorKind::Invalid, "the credentials cannot be used").with_source(error)
}

//! Who to be: options, the environment as grids have it, the configuration file.

use crate::configuration::environment;
use crate::exit::CommandError;
use crate::password_prompt;
use clap::Args;
use hither::{Basic, CertificateSource, CredentialConfig, Credentials, Environment};
use hither::{Error, ErrorKind, HostPattern, Secret, TokenSource};
use serde::Deserialize;
use std::path::PathBuf;

/// What every verb takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Credentials")]
pub struct CredentialArgs {
    /// File with a bearer token that only you can read; read again before it expires [default: BEARER_TOKEN,
    /// BEARER_TOKEN_FILE, $XDG_RUNTIME_DIR/bt_uUID, /tmp/bt_uUID].
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "token_command")]
    pub token_file: Option<PathBuf>,
    /// Command that prints a bearer token; run again before it expires.
    #[arg(long, global = true, value_name = "COMMAND")]
    pub token_command: Option<String>,
    /// User name; the password is that of HITHER_PASSWORD, or asked for [default: from the URL, or ~/.netrc].
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Client certificate, PEM [default: X509_USER_PROXY, X509_USER_CERT, /tmp/x509up_uUID].
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "proxy_cert")]
    pub cert: Option<PathBuf>,
    /// Its key, PEM, not encrypted [default: X509_USER_KEY, or in the same file].
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// X.509 proxy: certificates and key in one PEM file.
    #[arg(long, global = true, value_name = "FILE")]
    pub proxy_cert: Option<PathBuf>,
    /// Further certificate authorities to trust, PEM.
    #[arg(long, global = true, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Folder of certificate authorities to trust [default: X509_CERT_DIR, /etc/grid-security/certificates].
    #[arg(long, global = true, value_name = "DIR")]
    pub ca_dir: Option<PathBuf>,
    /// Host to which credentials may follow a redirect, or *.DOMAIN; may be given several times.
    #[arg(long, global = true, value_name = "HOST")]
    pub share_credentials: Vec<String>,
    /// Send credentials over http:// to other machines too, where everybody on the way can read them.
    #[arg(long, global = true)]
    pub credentials_over_http: bool,
    /// Be nobody: use none of the credentials that the environment has.
    #[arg(long, global = true, conflicts_with_all = ["token_file", "token_command", "user", "cert", "proxy_cert"])]
    pub anonymous: bool,
    /// The token itself; command lines are seen by others, so the command does not take it.
    #[arg(skip)]
    pub token: Option<Secret>,
    /// The password that belongs to `user`; likewise.
    #[arg(skip)]
    pub password: Option<Secret>,
}

/// `[credentials]` of the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    /// File with a token.
    token_file: Option<PathBuf>,
    /// Command that prints a token.
    token_command: Option<String>,
    /// Client certificate.
    cert: Option<PathBuf>,
    /// Its key.
    key: Option<PathBuf>,
    /// X.509 proxy.
    proxy_cert: Option<PathBuf>,
    /// Further certificate authorities.
    ca: Option<PathBuf>,
    /// Folder of certificate authorities.
    ca_dir: Option<PathBuf>,
    /// Hosts to which credentials may follow a redirect.
    #[serde(default)]
    share: Vec<String>,
    /// Whether credentials may go over http to other machines.
    #[serde(default)]
    over_http: bool,
}

/// The credentials that the user wants to be used.
pub(crate) fn credentials(
    flags: &CredentialArgs,
    file: Section,
) -> Result<Credentials, CommandError> {
    let mut config = CredentialConfig::discover(&read_environment());
    let named_token = environment("BEARER_TOKEN").or_else(|| environment("BEARER_TOKEN_FILE"));
    let source = |file: &Option<PathBuf>, command: &Option<String>| match (file, command) {
        (_, Some(line)) => Some(TokenSource::command(line)),
        (Some(path), None) => Some(TokenSource::File(path.clone())),
        (None, None) => None,
    };
    if let Some(token) = &flags.token {
        config.token = Some(TokenSource::Value(token.clone()));
    } else if let Some(token) = source(&flags.token_file, &flags.token_command) {
        config.token = Some(token);
    } else if flags.user.is_some() {
        // Who says a name does not mean the token that lies around.
        config.token = None;
    } else if named_token.is_none()
        && let Some(token) = source(&file.token_file, &file.token_command)
    {
        config.token = Some(token);
    }
    if let Some(user) = &flags.user {
        let given = flags.password.clone();
        let password = match given.or_else(|| environment("HITHER_PASSWORD").map(Secret::new)) {
            Some(password) => password,
            None => password_prompt::password(&format!("Password of {user}: "))?,
        };
        config.basic = Some(Basic::new(user, password).map_err(wrong)?);
    }
    let of_environment = environment("X509_USER_PROXY").or_else(|| environment("X509_USER_CERT"));
    if let Some(source) = certificate(&flags.cert, &flags.key, &flags.proxy_cert) {
        config.certificate = Some(source);
    } else if of_environment.is_none()
        && let Some(source) = certificate(&file.cert, &file.key, &file.proxy_cert)
    {
        config.certificate = Some(source);
    }
    let folder = flags.ca_dir.clone().or_else(|| config.trust.folder.take()).or(file.ca_dir);
    config.trust.folder = folder;
    config.trust.bundle = flags.ca.clone().or(file.ca);
    for pattern in flags.share_credentials.iter().chain(&file.share) {
        config.follow.push(HostPattern::parse(pattern).map_err(wrong)?);
    }
    config.over_plain_http = flags.credentials_over_http || file.over_http;
    if flags.anonymous {
        (config.token, config.basic) = (None, None);
        (config.netrc, config.certificate) = (None, None);
    }
    Ok(Credentials::new(config))
}

fn certificate(
    cert: &Option<PathBuf>,
    key: &Option<PathBuf>,
    proxy: &Option<PathBuf>,
) -> Option<CertificateSource> {
    if let Some(path) = proxy {
        return Some(CertificateSource::Proxy(path.clone()));
    }
    let certificate = cert.clone()?;
    let key = key.clone().or_else(|| environment("X509_USER_KEY").map(PathBuf::from));
    let key = key.unwrap_or_else(|| certificate.clone());
    Some(CertificateSource::Files { certificate, key })
}

fn read_environment() -> Environment {
    let empty = Environment::new(rustix::process::geteuid().as_raw());
    Environment::VARIABLES.iter().fold(empty, |known, name| match environment(name) {
        Some(value) => known.with(name, value),
        None => known,
    })
}

fn wrong(error: hither::AuthError) -> CommandError {
    Error::new(ErrorKind::Invalid, "the credentials cannot be used").with_source(error).into()
}

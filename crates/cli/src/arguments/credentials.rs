//! Credential options of every verb.

use clap::Args;
use hither::CredentialOptions;
use std::path::PathBuf;

/// Credential options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Credentials")]
pub(crate) struct CredentialArgs {
    /// Read a bearer token from this private file [default: BEARER_TOKEN, BEARER_TOKEN_FILE,
    /// $XDG_RUNTIME_DIR/bt_uUID, /tmp/bt_uUID].
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "token_command")]
    pub(crate) token_file: Option<PathBuf>,
    /// Run this command for a bearer token.
    #[arg(long, global = true, value_name = "COMMAND")]
    pub(crate) token_command: Option<String>,
    /// Log in with this name; HITHER_PASSWORD or a prompt gives the password [default: from the
    /// URL, or ~/.netrc].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Use this client certificate, PEM [default: X509_USER_PROXY, X509_USER_CERT,
    /// /tmp/x509up_uUID].
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "proxy_cert")]
    pub(crate) cert: Option<PathBuf>,
    /// Use this unencrypted key, PEM [default: X509_USER_KEY, or the file of the certificate].
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Use this X.509 proxy, PEM.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) proxy_cert: Option<PathBuf>,
    /// Trust further authorities, or a server's own certificate, PEM.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust the authorities in this folder [default: X509_CERT_DIR,
    /// /etc/grid-security/certificates].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) ca_dir: Option<PathBuf>,
    /// Send credentials to redirect targets, HOST or *.DOMAIN; repeatable.
    #[arg(long, global = true, value_name = "HOST")]
    pub(crate) share_credentials: Vec<String>,
    /// Send credentials unencrypted over http:// (insecure).
    #[arg(long, global = true)]
    pub(crate) credentials_over_http: bool,
    /// Ignore all credentials of the environment.
    #[arg(long, global = true, conflicts_with_all = ["token_file", "token_command", "user", "cert", "proxy_cert"])]
    pub(crate) anonymous: bool,
}

impl From<&CredentialArgs> for CredentialOptions {
    /// Tokens and passwords are no arguments, because other users can see command lines.
    fn from(arguments: &CredentialArgs) -> Self {
        let it = arguments.clone();
        Self {
            token: None,
            token_file: it.token_file,
            token_command: it.token_command,
            user: it.user,
            password: None,
            cert: it.cert,
            key: it.key,
            proxy_cert: it.proxy_cert,
            ca: it.ca,
            ca_dir: it.ca_dir,
            share_credentials: it.share_credentials,
            credentials_over_http: it.credentials_over_http,
            anonymous: it.anonymous,
        }
    }
}

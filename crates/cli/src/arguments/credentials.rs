//! Credential options of every verb.

use clap::Args;
use hither::CredentialOptions;
use std::path::PathBuf;

/// Credential options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Credentials")]
pub(crate) struct CredentialArgs {
    /// File with a bearer token that only you can read; read again before it expires [default: BEARER_TOKEN,
    /// BEARER_TOKEN_FILE, $XDG_RUNTIME_DIR/bt_uUID, /tmp/bt_uUID].
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "token_command")]
    pub(crate) token_file: Option<PathBuf>,
    /// Command that prints a bearer token; run again before it expires.
    #[arg(long, global = true, value_name = "COMMAND")]
    pub(crate) token_command: Option<String>,
    /// User name; the password is that of HITHER_PASSWORD, or asked for [default: from the URL, or ~/.netrc].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Client certificate, PEM [default: X509_USER_PROXY, X509_USER_CERT, /tmp/x509up_uUID].
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "proxy_cert")]
    pub(crate) cert: Option<PathBuf>,
    /// Its key, PEM, not encrypted [default: X509_USER_KEY, or in the same file].
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// X.509 proxy: certificates and key in one PEM file.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) proxy_cert: Option<PathBuf>,
    /// Further certificate authorities to trust, PEM.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Folder of certificate authorities to trust [default: X509_CERT_DIR, /etc/grid-security/certificates].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) ca_dir: Option<PathBuf>,
    /// Host to which credentials may follow a redirect, or *.DOMAIN; may be given several times.
    #[arg(long, global = true, value_name = "HOST")]
    pub(crate) share_credentials: Vec<String>,
    /// Send credentials over http:// to other machines too, where everybody on the way can read them.
    #[arg(long, global = true)]
    pub(crate) credentials_over_http: bool,
    /// Be nobody: use none of the credentials that the environment has.
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

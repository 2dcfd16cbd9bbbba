//! The table of the options of a client: for each one its name, type, bounds, meaning and default,
//! and the names under which the command line, the configuration file, the environment, Python and
//! C have it. All of these, their documentation and [`ClientOptions`] itself come from this table.
//!
//! To add an option, add a row here, and use its field where it has an effect. The tests of
//! hither-cli write the documentation and the types of Python with `HITHER_WRITE_REFERENCE=1`.

use super::option::{ClientOption, OptionField};
use super::value;
use crate::client::mirrors::Mirror;
use hither_auth::Secret;
use hither_transport::{PageChecksums, SourceAddress};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

const CREDENTIALS: &str = "Credentials";
const PATH: Option<&str> = Some("str | os.PathLike[str] | None");
const BYTES: Option<&str> = Some("int | str | None");
const SECONDS: Option<&str> = Some("float | None");

/// Makes [`ClientOptions`] and its table: each row has a field, its type, the reader of its values,
/// its meaning and the columns in which it differs from [`ClientOption::new`].
macro_rules! client_options {
    ($($name:ident: $type:ty = $read:ident, $meaning:literal {
        $($column:ident: $value:expr),* $(,)?
    })*) => {
        /// Options of a client, as a user gives them. An option that is absent is taken from the
        /// environment, then from the configuration file, then from the defaults.
        #[derive(Debug, Clone, Default)]
        pub struct ClientOptions {
            $(#[doc = $meaning] pub $name: $type,)*
        }

        impl ClientOptions {
            /// All options.
            pub const TABLE: &[ClientOption] = &[$(ClientOption {
                $($column: $value,)*
                ..ClientOption::new(
                    stringify!($name),
                    $meaning,
                    <$type as OptionField>::SHAPE,
                    |options, value| options.$name.add(value, value::$read),
                )
            }),*];
        }
    };
}

client_options! {
    max_connections: Option<NonZeroU16> = connections, "Maximum number of connections per server." {
        flag: Some("max-connections"), help: "Limit the connections per server", value_name: "N",
        key: Some("max_connections"), variable: Some("HITHER_MAX_CONNECTIONS"), default: Some("64"),
        example: "64", python_type: Some("int | None"),
    }
    cache: Option<u64> = size, "Memory for bytes that were read or prefetched, as in 500M." {
        flag: None, example: "500M", python_type: BYTES,
        python_note: "64 MiB by default, but at most a sixteenth of the memory of the machine or control group.",
    }
    store: Option<PathBuf> = folder_or_none,
    "Folder that remembers servers and files between runs; empty for none." {
        help: "Remember servers and files here", value_name: "DIR", conflicts: &["no_store"],
        key: Some("store"), variable: Some("HITHER_STORE"), origin: "hither in the cache folder",
        flag_origin: Some("hither in the cache folder of the user"), example: "'/data/hither'",
        python_type: Some("str | os.PathLike[str] | bool | None"),
        python_note: "The user's cache folder by default; ``False`` remembers nothing.",
    }
    no_store: bool = truth, "Use no store, whatever the other options say." {
        flag: Some("no-store"), help: "Use no store", python: None, c: None,
    }
    disk_cache: Option<u64> = size, "Maximum size of the disk cache in bytes, as in 500M or 20G." {
        flag: Some("disk-cache"), help: "Limit the size of the disk cache, as in 500M or 20G",
        value_name: "SIZE", key: Some("disk_cache"), flag_origin: Some("0, no disk cache"),
        example: "'20G'", python_type: BYTES,
    }
    decode_threads: Option<usize> = threads, "Threads that decompress and decode." {
        flag: None, c: None, python_type: Some("int | None"),
        python_note: "One for each processor by default.",
    }
    staleness: Option<Duration> = age,
    "Age up to which stored metadata is used without validation, as in 90s, 30m, 12h or 7d." {
        help: "Use stored metadata without validation up to this age, as in 90s, 30m, 12h or 7d",
        value_name: "DURATION", key: Some("staleness"), variable: Some("HITHER_STALENESS"),
        default: Some("0"), example: "'30m'", python_type: Some("float | str | None"),
    }
    connect_timeout: Option<Duration> = time_limit, "Time limit for opening a connection, in seconds." {
        flag: Some("connect-timeout"), help: "Limit the time to connect", value_name: "SECONDS",
        key: Some("connect_timeout"), default: Some("15"), example: "15.0", python_type: SECONDS,
    }
    stall_timeout: Option<Duration> = time_limit,
    "Time limit for a transfer without progress, in seconds; twice that until the first byte." {
        flag: Some("stall-timeout"),
        help: "Limit the time without progress; twice that until the first byte",
        value_name: "SECONDS", key: Some("stall_timeout"), default: Some("30"), example: "30.0",
        python_type: SECONDS,
    }
    verify: Option<PageChecksums> = page_checksums,
    "Unencrypted root:// reads to verify with page checksums: never, long or always." {
        help: "Verify unencrypted root:// reads with page checksums: never; long, 64 KiB or more where the server can; or always",
        value_name: "READS", key: Some("verify"), default: Some("never"), example: "'long'",
        python_type: Some("Literal[\"never\", \"long\", \"always\"] | None"),
        python_note: "Long reads are those of 64 KiB and more, where the server can; with ``\"always\"``, servers that cannot are refused.",
    }
    replicas: Vec<String> = words, "URLs of replicas of the one file that a command reads." {
        flag: Some("replica"), help: "Add a replica of the file; repeatable", value_name: "URL",
        python: None, c: None,
    }
    headers: Vec<(String, Secret)> = headers, "Header fields that are added to all HTTP requests." {
        flag: Some("header"), c: Some("header"),
        help: "Add a header field to all HTTP requests, as in 'X-Site: T2'; repeatable. Others see the command line: secrets belong in the configuration file",
        value_name: "FIELD", key: Some("headers"), example: "{ 'X-Site' = 'T2' }",
        python_type: Some("Mapping[str, str] | None"),
        python_note: "They go to the servers of the given URLs and those to which credentials may follow a redirect.",
        is_secret: true,
    }
    proxy: Option<Secret> = secret, "Proxy for all servers." {
        help: "Use this proxy, as in http://USER:PASSWORD@HOST:PORT; empty for none",
        value_name: "URL", key: Some("proxy"),
        flag_origin: Some("http_proxy, https_proxy, all_proxy and no_proxy of the environment"),
        example: "'http://proxy:3128'",
        python_note: "The environment's by default; the empty string for none.", is_secret: true,
    }
    no_proxy: Option<String> = word, "Hosts that are reached without a proxy." {
        flag: None, python: None, c: None, key: Some("no_proxy"),
        example: "'localhost,.example.org'",
    }
    source_addresses: Vec<SourceAddress> = sources,
    "Addresses or interfaces of this machine over which connections are spread evenly." {
        flag: Some("source-address"), c: Some("source_address"),
        help: "Spread connections evenly over these addresses or interfaces of this machine, as in eth0,eth1; repeatable",
        value_name: "ADDRESS|INTERFACE", key: Some("source_address"),
        variable: Some("HITHER_SOURCE_ADDRESS"),
        flag_origin: Some("HITHER_SOURCE_ADDRESS, or the routing table's choice"),
        example: "['eth0', 'eth1']", python_note: "By default the routing table decides.",
    }
    insecure: bool = truth, "Accept any server certificate without verification." {
        help: "Accept any server certificate (insecure)",
    }
    trace: Option<PathBuf> = path,
    "File to write a trace of all reads to; %p stands for the process number." {
        help: "Write a trace of all reads, for hither trace; %p is the process number",
        value_name: "FILE", variable: Some("HITHER_TRACE"), python_type: PATH,
    }
    config: Option<PathBuf> = path, "Configuration file to use instead of the user's." {
        help: "Read this configuration file", value_name: "FILE",
        flag_origin: Some("hither/config.toml in the configuration folder of the user"),
        python_type: PATH,
    }
    mirrors: Vec<Mirror> = mirrors,
    "Beginnings of URLs, and those of the URLs of their replicas, the best first." {
        flag: None, c: None, key: Some("mirror"),
        example: "[{ prefix = 'http://host/data/', elsewhere = ['http://other/data/'] }]",
        python_type: Some("Mapping[str, Sequence[str]] | None"), is_secret: true,
    }
    token: Option<Secret> = secret, "Bearer token." {
        flag: None, is_secret: true,
    }
    token_file: Option<PathBuf> = path, "File with a bearer token." {
        flag: Some("token-file"), help: "Read a bearer token from this private file",
        value_name: "FILE", heading: CREDENTIALS, conflicts: &["token_command"],
        key: Some("credentials.token_file"), origin: "discovered",
        flag_origin: Some("BEARER_TOKEN, BEARER_TOKEN_FILE, $XDG_RUNTIME_DIR/bt_uUID, /tmp/bt_uUID"),
        example: "'/home/me/token'", python_type: PATH,
    }
    token_command: Option<Secret> = secret, "Command that prints a bearer token." {
        flag: Some("token-command"), help: "Run this command for a bearer token",
        value_name: "COMMAND", heading: CREDENTIALS, key: Some("credentials.token_command"),
        example: "'oidc-token prod'", is_secret: true,
    }
    user: Option<String> = word, "User name." {
        help: "Log in with this name; HITHER_PASSWORD or a prompt gives the password",
        value_name: "NAME", heading: CREDENTIALS, flag_origin: Some("from the URL, or ~/.netrc"),
    }
    password: Option<Secret> = secret, "Password of the user." {
        flag: None, variable: Some("HITHER_PASSWORD"), is_secret: true,
    }
    cert: Option<PathBuf> = path, "Client certificate, PEM." {
        help: "Use this client certificate, PEM", value_name: "FILE", heading: CREDENTIALS,
        conflicts: &["proxy_cert"], key: Some("credentials.cert"), origin: "discovered",
        flag_origin: Some("X509_USER_PROXY, X509_USER_CERT, /tmp/x509up_uUID"),
        example: "'/home/me/cert.pem'", python_type: PATH,
    }
    key: Option<PathBuf> = path, "Key of the certificate, PEM, not encrypted." {
        help: "Use this unencrypted key, PEM", value_name: "FILE", heading: CREDENTIALS,
        requires: Some("cert"), key: Some("credentials.key"), origin: "the certificate's file",
        flag_origin: Some("X509_USER_KEY, or the file of the certificate"),
        example: "'/home/me/key.pem'", python_type: PATH,
    }
    proxy_cert: Option<PathBuf> = path, "X.509 proxy, PEM." {
        flag: Some("proxy-cert"), help: "Use this X.509 proxy, PEM", value_name: "FILE",
        heading: CREDENTIALS, key: Some("credentials.proxy_cert"), origin: "discovered",
        example: "'/tmp/x509up_u1000'", python_type: PATH,
    }
    ca: Option<PathBuf> = path, "Further certificate authorities, PEM." {
        help: "Trust further authorities, or a server's own certificate, PEM", value_name: "FILE",
        heading: CREDENTIALS, key: Some("credentials.ca"), example: "'/etc/ca.pem'",
        python_type: PATH,
    }
    ca_dir: Option<PathBuf> = path, "Folder of certificate authorities." {
        flag: Some("ca-dir"), help: "Trust the authorities in this folder", value_name: "DIR",
        heading: CREDENTIALS, key: Some("credentials.ca_dir"), origin: "discovered",
        flag_origin: Some("X509_CERT_DIR, /etc/grid-security/certificates"),
        example: "'/etc/grid-security/certificates'", python_type: PATH,
    }
    share_credentials: Vec<String> = words, "Hosts to which credentials may follow a redirect." {
        c: Some("share"), flag: Some("share-credentials"),
        help: "Send credentials to redirect targets, HOST or *.DOMAIN; repeatable",
        value_name: "HOST", heading: CREDENTIALS, key: Some("credentials.share"),
        example: "['*.example.org']",
    }
    credentials_over_http: bool = truth,
    "Send credentials unencrypted over http:// to other machines." {
        c: Some("over_http"), flag: Some("credentials-over-http"),
        help: "Send credentials unencrypted over http:// (insecure)", heading: CREDENTIALS,
        key: Some("credentials.over_http"), default: Some("false"), example: "false",
    }
    anonymous: bool = truth, "Ignore all credentials found in the environment." {
        help: "Ignore all credentials of the environment", heading: CREDENTIALS,
        conflicts: &["token_file", "token_command", "user", "cert", "proxy_cert"],
    }
}

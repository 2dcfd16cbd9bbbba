//! Options of clients and copies, as names and values.

use crate::foreign::invalid;
use hither::{
    BandwidthLimit, BandwidthLimiter, ClientConfig, ClientOptions, CopyOptions, Error, OpenOptions,
    OverwritePolicy, Secret, Suggestion, Verify, byte_size, duration,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names of the options of a client. Those of the configuration file have its names.
const CLIENT_OPTIONS: [&str; 25] = [
    "anonymous",
    "ca",
    "ca_dir",
    "cache",
    "cert",
    "config",
    "connect_timeout",
    "disk_cache",
    "header",
    "insecure",
    "key",
    "max_connections",
    "over_http",
    "password",
    "proxy",
    "proxy_cert",
    "share",
    "source_address",
    "staleness",
    "stall_timeout",
    "store",
    "token",
    "token_command",
    "token_file",
    "user",
];

/// Names of the options of a copy.
const COPY_OPTIONS: [&str; 7] =
    ["bwlimit", "checksum", "existing", "recursive", "retry", "third_party", "transfers"];

/// Names of the options of a file.
const OPEN_OPTIONS: [&str; 3] = ["open_ahead", "tail", "tree_cache"];

/// The options of a file, and the bytes of its tail that are prefetched together with its head.
pub(crate) fn open_options(pairs: &[(&str, &str)]) -> Result<(OpenOptions, Option<u64>), Error> {
    let mut options = OpenOptions::default();
    let mut tail = None;
    for &(name, value) in pairs {
        match name {
            "open_ahead" => options = options.open_ahead(truth(name, value)?),
            "tail" => tail = Some(parsed(name, byte_size(value))?),
            "tree_cache" => options = options.tree_cache(truth(name, value)?),
            _ => return Err(unknown(name, &OPEN_OPTIONS)),
        }
    }
    Ok((options, tail))
}

/// The configuration of a client: these options, then the environment, then the configuration file.
pub(crate) fn client_config(pairs: &[(&str, &str)]) -> Result<ClientConfig, Error> {
    let mut options = ClientOptions::default();
    let mut config_file = None;
    let mut cache = None;
    for &(name, value) in pairs {
        match name {
            "cache" => cache = Some(parsed(name, byte_size(value))?),
            "config" => config_file = Some(Path::new(value)),
            _ if set_credential(&mut options, name, value)? => {}
            _ => set_option(&mut options, name, value)?,
        }
    }
    if options.credentials.user.is_some() && options.credentials.password.is_none() {
        // The command would ask for it.
        return Err(invalid("option user needs option password"));
    }
    let mut config = hither_cli::client_config(options, config_file)?;
    if let Some(bytes) = cache {
        config.cache = hither::CacheConfig::with_budget(bytes);
    }
    Ok(config)
}

fn set_option(options: &mut ClientOptions, name: &str, value: &str) -> Result<(), Error> {
    match name {
        "connect_timeout" => options.connect_timeout = Some(number(name, value)?),
        "disk_cache" => options.disk_cache = Some(parsed(name, byte_size(value))?),
        "header" => {
            let (field, value) = value.split_once(':').ok_or_else(|| {
                invalid(format!("option header is {value:?}, expected NAME: VALUE"))
            })?;
            options.headers.push((field.trim().to_owned(), value.trim().to_owned()));
        }
        "insecure" => options.insecure = truth(name, value)?,
        "max_connections" => options.max_connections = Some(number(name, value)?),
        "proxy" => options.proxy = Some(value.to_owned()),
        "source_address" => {
            for source in value.split(',') {
                options.source_addresses.push(source.parse()?);
            }
        }
        "staleness" => options.staleness = Some(parsed(name, duration(value))?),
        "stall_timeout" => options.stall_timeout = Some(number(name, value)?),
        "store" if value.is_empty() => options.no_store = true,
        "store" => options.store = Some(PathBuf::from(value)),
        _ => return Err(unknown(name, &CLIENT_OPTIONS)),
    }
    Ok(())
}

/// Sets an option that is about credentials; returns false for others.
fn set_credential(options: &mut ClientOptions, name: &str, value: &str) -> Result<bool, Error> {
    let credentials = &mut options.credentials;
    match name {
        "anonymous" => credentials.anonymous = truth(name, value)?,
        "ca" => credentials.ca = Some(PathBuf::from(value)),
        "ca_dir" => credentials.ca_dir = Some(PathBuf::from(value)),
        "cert" => credentials.cert = Some(PathBuf::from(value)),
        "key" => credentials.key = Some(PathBuf::from(value)),
        "over_http" => credentials.credentials_over_http = truth(name, value)?,
        "password" => credentials.password = Some(Secret::new(value)),
        "proxy_cert" => credentials.proxy_cert = Some(PathBuf::from(value)),
        "share" => credentials.share_credentials.push(value.to_owned()),
        "token" => credentials.token = Some(Secret::new(value)),
        "token_command" => credentials.token_command = Some(value.to_owned()),
        "token_file" => credentials.token_file = Some(PathBuf::from(value)),
        "user" => credentials.user = Some(value.to_owned()),
        _ => return Ok(false),
    }
    Ok(true)
}

/// The options of a copy by `client`.
pub(crate) fn copy_options(
    client: &hither::Client,
    pairs: &[(&str, &str)],
) -> Result<CopyOptions, Error> {
    let mut options = client.copy_options();
    for &(name, value) in pairs {
        match name {
            "bwlimit" => {
                let timetable = parsed(name, value.parse())?;
                let minute_of_week = hither_cli::minute_of_week;
                let limit = BandwidthLimit { timetable, minute_of_week };
                let clock = Arc::new(hither::MonotonicClock::start());
                options.bandwidth = Some(Arc::new(BandwidthLimiter::new(limit, clock)));
            }
            "checksum" if value == "none" => options.verify = Verify::Nothing,
            "checksum" if value.contains(':') => options.verify = Verify::Value(value.parse()?),
            "checksum" => options.verify = Verify::Algorithm(value.parse()?),
            "existing" => {
                options.existing = match value {
                    "replace" => OverwritePolicy::Replace,
                    "keep" => OverwritePolicy::Keep,
                    "update" => OverwritePolicy::Update,
                    "refuse" => OverwritePolicy::Refuse,
                    _ => return Err(expected(name, value, "replace, keep, update or refuse")),
                }
            }
            "recursive" => options.recursive = truth(name, value)?,
            "retry" => options.attempts = number(name, value)?,
            "third_party" => options.third_party = Some(client.third_party(value.parse()?)),
            "transfers" => options.transfers = Some(number(name, value)?),
            _ => return Err(unknown(name, &COPY_OPTIONS)),
        }
    }
    Ok(options)
}

fn expected(name: &str, value: &str, expected: &str) -> Error {
    invalid(format!("option {name} is {value:?}, expected {expected}"))
}

fn unknown(name: &str, names: &[&str]) -> Error {
    let suggestion = Suggestion::similar_or_all(name, names.iter().copied());
    invalid(format!("there is no option {name:?}{suggestion}"))
}

fn parsed<T>(name: &str, parsed: Result<T, String>) -> Result<T, Error> {
    parsed.map_err(|why| invalid(format!("option {name}: {why}")))
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Error> {
    value.parse().map_err(|_| expected(name, value, "a number"))
}

fn truth(name: &str, value: &str) -> Result<bool, Error> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(expected(name, value, "true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/c.md"));

    #[test]
    fn every_option_is_listed_and_in_the_guide() {
        let client = hither::Client::new(ClientConfig::default()).unwrap();
        let without_value = |name| match client_config(&[(name, "\u{1}")]) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert!(without_value("no_option").contains("there is no option"));
        for name in CLIENT_OPTIONS {
            assert!(!without_value(name).contains("there is no option"), "{name}");
            assert!(GUIDE.contains(&format!("`{name}`")), "{name}");
        }
        for name in COPY_OPTIONS {
            let error = copy_options(&client, &[(name, "\u{1}")]).unwrap_err().to_string();
            assert!(!error.contains("there is no option"), "{name}");
            assert!(GUIDE.contains(&format!("`{name}`")), "{name}");
        }
        for name in OPEN_OPTIONS {
            let error = open_options(&[(name, "\u{1}")]).unwrap_err().to_string();
            assert!(!error.contains("there is no option"), "{name}");
            assert!(GUIDE.contains(&format!("`{name}`")), "{name}");
        }
        assert!(copy_options(&client, &[("no_option", "1")]).is_err());
        assert!(open_options(&[("no_option", "1")]).is_err());
    }
}

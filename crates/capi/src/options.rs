//! Options of clients and copies, as names and values.

use crate::foreign::invalid;
use hither::{
    ClientConfig, ClientOptions, CopyOptions, Error, OpenOptions, OptionValue, OverwritePolicy,
    Suggestion, Verify, byte_size,
};

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
            "tail" => tail = Some(byte_size(value).map_err(|it| refused(name, value, &it))?),
            "tree_cache" => options = options.tree_cache(truth(name, value)?),
            _ => return Err(unknown(name, &OPEN_OPTIONS)),
        }
    }
    Ok((options, tail))
}

/// The configuration of a client: these options, then the environment, then the configuration file.
pub(crate) fn client_config(pairs: &[(&str, &str)]) -> Result<ClientConfig, Error> {
    let mut options = ClientOptions::default();
    for &(name, text) in pairs {
        let option = ClientOptions::find(name, |option| option.c)?;
        let value = OptionValue::text(text);
        option
            .read(&mut options, &value)
            .map_err(|expected| option.refused(&format!("option {name}"), &value, &expected))?;
    }
    let environment = ClientOptions::environment(|name| std::env::var(name).ok());
    // The command prompts for it instead.
    let no_password = |_: &str| Err(invalid("option user needs option password"));
    options.config(&environment, no_password)
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
                let timetable =
                    value.parse().map_err(|why| invalid(format!("option {name}: {why}")))?;
                options.bandwidth = Some(hither::bandwidth_limiter(timetable));
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
                    _ => {
                        return Err(refused(
                            name,
                            value,
                            "expected replace, keep, update or refuse",
                        ));
                    }
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

fn refused(name: &str, value: &str, expected: &str) -> Error {
    invalid(format!("option {name} is {value:?}, {expected}"))
}

fn unknown(name: &str, names: &[&str]) -> Error {
    let suggestion = Suggestion::similar_or_all(name, names.iter().copied());
    invalid(format!("there is no option {name:?}{suggestion}"))
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Error> {
    value.parse().map_err(|_| refused(name, value, "expected a number"))
}

fn truth(name: &str, value: &str) -> Result<bool, Error> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(refused(name, value, "expected true or false")),
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
        for name in ClientOptions::TABLE.iter().filter_map(|option| option.c) {
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
    #[test]
    fn clients_refuse_what_an_option_refuses_with_the_same_sentence() {
        let mut refused = 0;
        for option in ClientOptions::TABLE {
            let Some(name) = option.c else { continue };
            for text in ["?", "0", "1025", "-1", "1e9", "maybe", "100000000T"] {
                let read = option.read(&mut ClientOptions::default(), &OptionValue::text(text));
                if let Err(sentence) = read {
                    let error = client_config(&[(name, text)]).unwrap_err().to_string();
                    assert!(error.starts_with(&format!("option {name}")), "{error}");
                    assert!(error.ends_with(&sentence), "{error}: {sentence}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 20, "{refused}");
        let error = client_config(&[("max_connection", "1")]).unwrap_err().to_string();
        assert!(
            error.contains("there is no option \"max_connection\"; did you mean `max_connections`"),
            "{error}"
        );
    }
}

//! Which proxies to use: the option, the environment as curl reads it, the configuration file.

use crate::configuration::environment;
use crate::exit::CommandError;
use hither::Proxies;

/// `option` and `no_proxy` are those of the command line and of the configuration file, in this order.
pub(crate) fn proxies(
    option: Option<&str>,
    file: Option<&str>,
    file_direct: Option<&str>,
) -> Result<Proxies, CommandError> {
    // Upper case would be `http_proxy` set by a request, where the command runs below a web server.
    let http = environment("http_proxy");
    let https = either("https_proxy");
    let all = either("all_proxy");
    let direct = either("no_proxy");
    let direct = direct.as_deref().or(file_direct);
    let proxies = match option {
        // For everything, and the empty string for no proxy at all.
        Some(_) => Proxies::new(None, None, option, direct),
        None => {
            let all = all.as_deref().or(file);
            Proxies::new(http.as_deref(), https.as_deref(), all, direct)
        }
    };
    Ok(proxies?)
}

/// A variable in small letters, else in capital ones.
fn either(variable: &str) -> Option<String> {
    environment(variable).or_else(|| environment(&variable.to_ascii_uppercase()))
}

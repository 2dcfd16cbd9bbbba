//! Precedence of proxies: option, environment (as curl reads it), configuration file.

use crate::client::options::variable;
use hither_auth::Environment;
use hither_core::error::Result;
use hither_transport::Proxies;

/// The variables that name proxies. `HTTP_PROXY` is not read: below a web server, a request can set
/// it.
pub(crate) const VARIABLES: [&str; 7] =
    ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];

/// The proxies that a client uses.
pub(crate) fn proxies(
    option: Option<&str>,
    environment: &Environment,
    file: Option<&str>,
    file_direct: Option<&str>,
) -> Result<Proxies> {
    let lower_or_upper = |lower: &str, upper: &str| {
        variable(environment, lower).or_else(|| variable(environment, upper))
    };
    let direct = lower_or_upper("no_proxy", "NO_PROXY").or(file_direct);
    if option.is_some() {
        // For all servers; the empty string means no proxy at all.
        return Proxies::new(None, None, option, direct);
    }
    let http = variable(environment, "http_proxy");
    let https = lower_or_upper("https_proxy", "HTTPS_PROXY");
    let all = lower_or_upper("all_proxy", "ALL_PROXY").or(file);
    Proxies::new(http, https, all, direct)
}

//! Endpoint, region and keys of object stores, from the sources of Amazon's own programs.

use crate::client::config::ClientConfig;
use crate::client::options::variable;
use hither_auth::{AwsProfileSource, Environment, Secret};
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::S3Config;

/// The variables of Amazon's programs.
pub(crate) fn of_environment(environment: &Environment, anonymous: bool) -> S3Config {
    let first = |names: &[&str]| {
        names.iter().find_map(|name| variable(environment, name)).map(str::to_owned)
    };
    let key = |name| first(&[name]).filter(|_| !anonymous);
    S3Config {
        endpoint: first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]),
        region: first(&["AWS_REGION", "AWS_DEFAULT_REGION"]),
        access_key_id: key("AWS_ACCESS_KEY_ID"),
        secret_access_key: key("AWS_SECRET_ACCESS_KEY").map(Secret::new),
        session_token: key("AWS_SESSION_TOKEN").map(Secret::new),
    }
}

/// The profile of the environment, without its keys if they are not wanted.
pub(crate) fn profile_of(
    environment: &Environment,
    s3: &S3Config,
    anonymous: bool,
) -> AwsProfileSource {
    let profile = AwsProfileSource::discover(environment);
    let keys = s3.access_key_id.is_none() && s3.secret_access_key.is_none() && !anonymous;
    if keys { profile } else { profile.without_keys() }
}

/// The configuration of object stores, completed by the profile, whose files are read now.
///
/// # Errors
///
/// [`ErrorKind::Invalid`] for a profile that cannot be used.
pub(crate) fn configured(config: &ClientConfig) -> Result<S3Config> {
    let mut s3 = config.s3.clone();
    let Some(source) = &config.s3_profile else { return Ok(s3) };
    let profile = source.read().map_err(|error| {
        Error::new(ErrorKind::Invalid, "the keys for s3:// cannot be used").with_source(error)
    })?;
    if let Some(why) = profile.unusable {
        return Err(Error::new(ErrorKind::Invalid, why));
    }
    s3.endpoint = s3.endpoint.or(profile.endpoint);
    s3.region = s3.region.or(profile.region);
    if let Some(keys) = profile.keys {
        s3.access_key_id = Some(keys.id);
        s3.secret_access_key = Some(keys.secret);
        s3.session_token = keys.session_token;
    }
    Ok(s3)
}

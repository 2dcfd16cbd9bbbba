//! Profiles of the AWS command line and SDKs: `~/.aws/credentials` and `~/.aws/config`.
//!
//! Both are INI files. The section of the profile `x` is `[x]` in the first and `[profile x]` in
//! the second; values of the first file take precedence. Indented lines continue the value before
//! them, and no such value is used here. The first file contains keys, so no other user may have
//! access to it.

use crate::environment::Environment;
use crate::error::{AuthError, Result};
use crate::private_file::{self, FileAccess, FileModeCheck};
use crate::secret::Secret;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum size of a file.
const MAX_BYTES: usize = 1 << 20;
/// Settings with which the AWS tools fetch keys from another source.
const FETCHED: [&str; 6] = [
    "role_arn",
    "sso_session",
    "sso_start_url",
    "credential_process",
    "web_identity_token_file",
    "login_session",
];

/// The files with the profiles.
#[derive(Debug, Clone, Default)]
pub struct AwsProfileSource {
    /// The name, if one was given. Otherwise the profile is `default`, which may be missing.
    name: Option<String>,
    credentials: Option<PathBuf>,
    config: Option<PathBuf>,
    uid: u32,
    /// Ignores the keys, and the file that contains them.
    without_keys: bool,
}

/// The settings of a profile that this crate uses.
#[derive(Debug, Clone, Default)]
pub struct AwsProfile {
    /// URL of the server.
    pub endpoint: Option<String>,
    /// Region of the buckets.
    pub region: Option<String>,
    /// Keys.
    pub keys: Option<AwsKeys>,
    /// Reason why the keys of the profile cannot be used, if it has some.
    pub unusable: Option<String>,
}

/// Keys that sign requests.
#[derive(Debug, Clone)]
pub struct AwsKeys {
    /// Access key id.
    pub id: String,
    /// Secret access key.
    pub secret: Secret,
    /// Session token of temporary keys.
    pub session_token: Option<Secret>,
}

type Settings = BTreeMap<String, Secret>;

impl AwsProfileSource {
    /// The environment variables that are read.
    pub const VARIABLES: [&str; 3] =
        ["AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"];

    /// The profile and the files that this environment names. Reads no file yet.
    #[must_use]
    pub fn discover(environment: &Environment) -> Self {
        let home = |name: &str| environment.path("HOME").map(|home| home.join(".aws").join(name));
        let named = |variable, name| environment.path(variable).or_else(|| home(name));
        Self {
            name: environment.variable("AWS_PROFILE").map(|name| name.expose().to_owned()),
            credentials: named("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: named("AWS_CONFIG_FILE", "config"),
            uid: environment.uid(),
            without_keys: false,
        }
    }

    /// The same profile without its keys; then a missing profile is not an error.
    #[must_use]
    pub fn without_keys(self) -> Self {
        Self { without_keys: true, credentials: None, ..self }
    }

    /// Reads the files; those that do not exist are empty.
    ///
    /// # Errors
    ///
    /// [`AuthError::Exposed`] and others for files that cannot be used; [`AuthError::Malformed`] if
    /// a profile was named and neither file contains it.
    pub fn read(&self) -> Result<AwsProfile> {
        let name = self.name.as_deref().unwrap_or("default");
        let private = FileAccess::Private(self.uid);
        let keys = settings(self.credentials.as_deref(), private, &[name])?;
        let long = format!("profile {name}");
        let sections = if name == "default" { &[&*long, name][..] } else { &[&*long] };
        let config = settings(self.config.as_deref(), FileAccess::Public, sections)?;
        if self.without_keys {
            let AwsProfile { endpoint, region, .. } = profile(name, &config.unwrap_or_default());
            return Ok(AwsProfile { endpoint, region, ..AwsProfile::default() });
        }
        if let (Some(name), None, None) = (&self.name, &keys, &config) {
            let shown = |path: &Option<PathBuf>| {
                path.as_ref().map_or_else(String::new, |path| path.display().to_string())
            };
            let place = format!("the profile {name:?} (AWS_PROFILE)");
            let files = format!("{} and {}", shown(&self.credentials), shown(&self.config));
            return Err(AuthError::malformed(place, format!("it is in none of {files}")));
        }
        let mut all = config.unwrap_or_default();
        all.extend(keys.unwrap_or_default());
        Ok(profile(name, &all))
    }
}

fn profile(name: &str, settings: &Settings) -> AwsProfile {
    let text = |key: &str| settings.get(key).map(|value| value.expose().to_owned());
    let keys = text("aws_access_key_id").zip(settings.get("aws_secret_access_key").cloned());
    let keys = keys.map(|(id, secret)| {
        let session_token = settings.get("aws_session_token").cloned();
        AwsKeys { id, secret, session_token }
    });
    let fetched = FETCHED.iter().find(|key| settings.contains_key(**key));
    let unusable = fetched.filter(|_| keys.is_none()).map(|key| {
        format!(
            "the keys of the profile {name:?} come by {key:?}, which is not supported: run \
             `eval \"$(aws configure export-credentials --profile {name} --format env)\"` first"
        )
    });
    AwsProfile { endpoint: text("endpoint_url"), region: text("region"), keys, unusable }
}

/// The settings of the first of these sections that exists in a file.
fn settings(
    path: Option<&Path>,
    access: FileAccess,
    sections: &[&str],
) -> Result<Option<Settings>> {
    let Some(path) = path else { return Ok(None) };
    let guard = FileModeCheck { access, link: true };
    let content = match private_file::read("AWS file", path, guard, MAX_BYTES) {
        Ok(content) => content,
        Err(AuthError::Unreadable { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let text = std::str::from_utf8(&content)
        .map_err(|_| AuthError::malformed(path.display(), "it is not UTF-8"))?;
    Ok(sections.iter().find_map(|section| section_of(text, section)))
}

/// The settings of a section; `None` if there is no such section.
fn section_of(text: &str, section: &str) -> Option<Settings> {
    let mut found: Option<Settings> = None;
    let mut inside = false;
    for line in text.lines().filter(|line| !line.starts_with(char::is_whitespace)) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            // A name with a blank may be quoted: [profile "my work"].
            inside = name.split_whitespace().eq(section.split_whitespace())
                || name.replace('"', "").trim() == section;
            if inside {
                found.get_or_insert_default();
            }
        } else if let (true, Some((key, value))) = (inside, line.split_once('='))
            && !line.starts_with(['#', ';'])
            && !value.trim().is_empty()
        {
            let settings = found.get_or_insert_default();
            settings.insert(key.trim().to_ascii_lowercase(), Secret::new(value.trim()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const CREDENTIALS: &str = "# comment\n[default]\naws_access_key_id = one\n\
        aws_secret_access_key=hush\n[other]\naws_access_key_id=two\naws_secret_access_key=hush2\n\
        aws_session_token = t\nregion = first\n[half]\naws_access_key_id=x\n";
    const CONFIG: &str = "[default]\nregion = eu-1\ns3 =\n  endpoint_url = nested\n\
        [profile other]\nregion = second\nendpoint_url = https://host\n\
        [profile \"my work\"]\nrole_arn = arn:x\nregion = eu-3\n[profile half]\n";

    fn source(name: &str, folder: &Path) -> AwsProfileSource {
        let environment = Environment::new(rustix::process::geteuid().as_raw())
            .with("AWS_PROFILE", name)
            .with("HOME", folder.to_str().unwrap());
        AwsProfileSource::discover(&environment)
    }

    fn files() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".aws")).unwrap();
        for (name, text) in [("credentials", CREDENTIALS), ("config", CONFIG)] {
            let path = folder.path().join(".aws").join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        folder
    }

    #[test]
    fn profiles_are_read_from_both_files() {
        let folder = files();
        let read = |name| source(name, folder.path()).read().unwrap();
        let default = read("");
        let keys = default.keys.unwrap();
        assert_eq!((&*keys.id, keys.secret.expose()), ("one", "hush"));
        assert_eq!((default.region.as_deref(), default.endpoint), (Some("eu-1"), None));
        let other = read("other");
        let keys = other.keys.unwrap();
        assert_eq!((&*keys.id, keys.session_token.unwrap().expose()), ("two", "t"));
        assert_eq!(other.region.as_deref(), Some("first"));
        assert_eq!(other.endpoint.as_deref(), Some("https://host"));
        let half = read("half");
        assert!(half.keys.is_none() && half.unusable.is_none());
    }

    #[test]
    fn keys_that_come_from_elsewhere_are_named() {
        let folder = files();
        let work = source("my work", folder.path()).read().unwrap();
        assert_eq!(work.region.as_deref(), Some("eu-3"));
        assert!(work.unusable.unwrap().contains("role_arn"));
    }

    #[test]
    fn missing_profiles_and_readable_keys_are_errors() {
        let folder = files();
        let error = source("none", folder.path()).read().unwrap_err().to_string();
        assert!(error.contains("\"none\"") && error.contains(".aws/credentials"), "{error}");
        let path = folder.path().join(".aws/credentials");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = source("", folder.path()).read().unwrap_err();
        assert!(matches!(error, AuthError::Exposed { .. }), "{error}");
        assert!(source("", folder.path()).without_keys().read().unwrap().region.is_some());
        let nobody = tempfile::tempdir().unwrap();
        assert!(source("", nobody.path()).read().unwrap().keys.is_none());
    }
}

//! Sources of a token, and how it is read from them.
//!
//! The order of discovery is that of the WLCG document (zenodo.3937438): `BEARER_TOKEN`, the file
//! named by `BEARER_TOKEN_FILE`, `$XDG_RUNTIME_DIR/bt_u<uid>`, `/tmp/bt_u<uid>`. A source that the
//! user or a variable named has to work; otherwise the error states the reason. The two default
//! paths are guesses, and every user can write to `/tmp`: a problem there is recorded for the
//! explanation of a rejected request, and the search continues.
//!
//! The command runs in a shell and in its own process group, so that the complete group is killed
//! after the time limit. Its standard error goes to the user and is not read here.

use crate::environment::Environment;
use crate::error::{AuthError, Result};
use crate::private_file::{self, FileAccess, FileModeCheck};
use crate::secret::Secret;
use crate::token::claims::MAX_TOKEN;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use zeroize::Zeroizing;

/// A source of tokens.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TokenSource {
    /// The token itself. It cannot be renewed.
    Value(Secret),
    /// A file that only its owner can read; read again before the token expires.
    File(PathBuf),
    /// A command line for `/bin/sh` that prints a token; run again before the token expires.
    Command {
        /// The command line for the shell.
        line: String,
        /// Time limit, after which the command and all its children are killed.
        limit: Duration,
    },
    /// The sources of the WLCG document, in its order.
    Discovery {
        /// `BEARER_TOKEN`.
        value: Option<Secret>,
        /// `BEARER_TOKEN_FILE`.
        named: Option<PathBuf>,
        /// `$XDG_RUNTIME_DIR/bt_u<uid>`, `/tmp/bt_u<uid>`.
        places: Vec<PathBuf>,
    },
}

/// A token and the name of its source.
#[derive(Debug)]
pub(crate) struct DiscoveredToken {
    pub(crate) token: Secret,
    pub(crate) place: String,
}

impl TokenSource {
    /// Creates a command with a time limit of 30 seconds.
    #[must_use]
    pub fn command(line: impl Into<String>) -> Self {
        Self::Command { line: line.into(), limit: Duration::from_secs(30) }
    }

    /// The sources of the WLCG document, in this environment.
    #[must_use]
    pub fn discovery(environment: &Environment) -> Self {
        let name = format!("bt_u{}", environment.uid());
        let runtime = environment.path("XDG_RUNTIME_DIR").map(|folder| folder.join(&name));
        Self::Discovery {
            value: environment.variable("BEARER_TOKEN").cloned(),
            named: environment.path("BEARER_TOKEN_FILE"),
            places: runtime.into_iter().chain([Path::new("/tmp").join(&name)]).collect(),
        }
    }

    /// Returns true if a token was given or named explicitly, and is not searched for in default
    /// paths.
    pub(crate) fn is_explicit(&self) -> bool {
        !matches!(self, Self::Discovery { value: None, named: None, .. })
    }

    /// Returns true if reading the source starts a process.
    pub(crate) fn is_command(&self) -> bool {
        matches!(self, Self::Command { .. })
    }

    /// Returns true if the token was passed in, so that reading again cannot return another one.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self, Self::Value(_) | Self::Discovery { value: Some(_), .. })
    }

    /// The names of all searched sources for the user, in order.
    pub(crate) fn places(&self) -> Vec<String> {
        match self {
            Self::Value(_) => vec!["the configuration".to_owned()],
            Self::File(path) => vec![path.display().to_string()],
            Self::Command { .. } => vec!["the token command".to_owned()],
            Self::Discovery { places, .. } => {
                ["BEARER_TOKEN".to_owned(), "BEARER_TOKEN_FILE".to_owned()]
                    .into_iter()
                    .chain(places.iter().map(|path| path.display().to_string()))
                    .collect()
            }
        }
    }

    /// Reads the token. Adds errors of default paths to `problems`.
    pub(crate) fn fetch(
        &self,
        uid: u32,
        problems: &mut Vec<String>,
    ) -> Result<Option<DiscoveredToken>> {
        match self {
            Self::Value(token) => checked(token.expose(), "the token".to_owned()).map(Some),
            Self::File(path) => from_file(path, uid, true).map(Some),
            Self::Command { line, limit } => {
                let output = run(line, *limit)?;
                checked(&output, "the output of the token command".to_owned()).map(Some)
            }
            Self::Discovery { value: Some(token), .. } => {
                checked(token.expose(), "BEARER_TOKEN".to_owned()).map(Some)
            }
            Self::Discovery { named: Some(path), .. } => from_file(path, uid, true)
                .map(Some)
                .map_err(AuthError::of_variable("BEARER_TOKEN_FILE")),
            Self::Discovery { places, .. } => {
                for path in places {
                    match from_file(path, uid, false) {
                        Ok(found) => return Ok(Some(found)),
                        Err(AuthError::Unreadable { source, .. })
                            if source.kind() == std::io::ErrorKind::NotFound => {}
                        Err(error) => problems.push(error.line()),
                    }
                }
                Ok(None)
            }
        }
    }
}

fn from_file(path: &Path, uid: u32, link: bool) -> Result<DiscoveredToken> {
    let guard = FileModeCheck { access: FileAccess::Private(uid), link };
    let content = private_file::read("token file", path, guard, MAX_TOKEN)?;
    let place = path.display().to_string();
    let text = std::str::from_utf8(&content)
        .map_err(|_| AuthError::malformed(&place, "not text, expected a token"))?;
    checked(text, place)
}

/// Checks that `text`, without surrounding blanks, is a valid token in a header field (`b64token`,
/// RFC 6750 section 2.1).
fn checked(text: &str, place: String) -> Result<DiscoveredToken> {
    let text = text.trim();
    if text.is_empty() {
        return Err(AuthError::malformed(place, "empty, expected a token"));
    }
    if text.len() > MAX_TOKEN {
        return Err(AuthError::malformed(place, "longer than 65536 bytes, expected a token"));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    if let Some(at) = text.find(|c| !allowed(c)) {
        let why = format!("not a token: byte {at} is not allowed in a token");
        return Err(AuthError::malformed(place, why));
    }
    Ok(DiscoveredToken { token: Secret::new(text), place })
}

/// Runs a command; returns its output if it ended successfully within the limit.
fn run(line: &str, limit: Duration) -> Result<Zeroizing<String>> {
    let failed = |why: &str| AuthError::Command { why: why.to_owned(), source: None };
    let system =
        |source| AuthError::Command { why: "could not be run".to_owned(), source: Some(source) };
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(line)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(system)?;
    let (sender, receiver) = mpsc::channel();
    let output = child.stdout.take();
    let group = Pid::from_child(&child);
    let reader = std::thread::Builder::new().name("hither-token".to_owned()).spawn(move || {
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_TOKEN + 1));
        let most = u64::try_from(MAX_TOKEN).unwrap_or(u64::MAX) + 1;
        let read = output.map(|pipe| pipe.take(most).read_to_end(&mut text)).transpose();
        // Waits without reaping the process: its id, and the id of its group, is not reused until
        // `wait` below.
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        if text.len() <= MAX_TOKEN && rustix::process::waitid(WaitId::Pid(group), ended).is_err() {
            text.clear();
        }
        // A closed channel means that the time limit is over.
        drop(sender.send(read.map(|_| text)));
    });
    if let Err(error) = reader {
        end(&mut child, group);
        return Err(system(error));
    }
    let text = match receiver.recv_timeout(limit) {
        Ok(Ok(text)) if text.len() <= MAX_TOKEN => text,
        Ok(Ok(_)) => {
            end(&mut child, group);
            return Err(failed("printed more than 65536 bytes, expected a token"));
        }
        Ok(Err(error)) => {
            end(&mut child, group);
            return Err(system(error));
        }
        Err(_) => {
            end(&mut child, group);
            return Err(failed(&format!(
                "took longer than {} s and was killed",
                limit.as_secs_f64()
            )));
        }
    };
    let status = child.wait().map_err(system)?;
    if !status.success() {
        return Err(failed(&format!("failed ({status})")));
    }
    let text =
        std::str::from_utf8(&text).map_err(|_| failed("printed bytes that are not UTF-8"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Kills a command with all its children, and reaps it.
fn end(child: &mut Child, group: Pid) {
    // The process may have exited in the meantime.
    let _gone = rustix::process::kill_process_group(group, Signal::KILL);
    let _status = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_testkit::waiting::wait_until;
    use std::os::unix::fs::PermissionsExt;

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn fetch(source: &TokenSource) -> Result<Option<String>> {
        let found = source.fetch(uid(), &mut Vec::new())?;
        Ok(found.map(|found| found.token.expose().to_owned()))
    }

    fn private(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn sources_are_tried_in_the_order_of_the_document() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let runtime = folder.path().display().to_string();
        let empty = Environment::new(uid()).with("XDG_RUNTIME_DIR", runtime);
        let TokenSource::Discovery { places, .. } = TokenSource::discovery(&empty) else {
            panic!()
        };
        assert_eq!(places, [at(&format!("bt_u{}", uid())), format!("/tmp/bt_u{}", uid()).into()]);

        let first = at("first");
        let second = at("second");
        let places = vec![first.clone(), second.clone()];
        let guessed = TokenSource::Discovery { value: None, named: None, places: places.clone() };
        assert_eq!(fetch(&guessed).unwrap(), None);
        private(&second, " second\n");
        assert_eq!(fetch(&guessed).unwrap().as_deref(), Some("second"));
        private(&first, "first");
        assert_eq!(fetch(&guessed).unwrap().as_deref(), Some("first"));
        private(&at("named"), "named\n\n");
        let named = Some(at("named"));
        let source =
            TokenSource::Discovery { value: None, named: named.clone(), places: places.clone() };
        assert_eq!(fetch(&source).unwrap().as_deref(), Some("named"));
        let value = Some(Secret::new("\tvalue "));
        let source = TokenSource::Discovery { value, named, places };
        assert_eq!(fetch(&source).unwrap().as_deref(), Some("value"));
    }

    #[test]
    fn default_files_may_be_wrong_but_named_ones_must_work() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bt");
        std::fs::write(&path, "token").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut problems = Vec::new();
        let guessed =
            TokenSource::Discovery { value: None, named: None, places: vec![path.clone()] };
        assert!(guessed.fetch(uid(), &mut problems).unwrap().is_none());
        assert!(problems[0].contains("chmod 600"), "{problems:?}");
        assert!(fetch(&TokenSource::File(path)).is_err());
        assert!(fetch(&TokenSource::File(folder.path().join("none"))).is_err());
    }

    #[test]
    fn text_that_is_no_token_is_rejected_without_showing_it() {
        for text in ["", " \n", "two words", "a\u{e9}", "key: value", "a\0b", "-----BEGIN"] {
            let result = fetch(&TokenSource::Value(Secret::new(text)));
            match (text, result) {
                ("-----BEGIN", result) => assert!(result.is_ok()),
                (_, Ok(_)) => panic!("{text:?} was taken"),
                (_, Err(error)) => assert!(!error.to_string().contains("two"), "{error}"),
            }
        }
    }

    #[test]
    fn the_variable_that_names_a_file_is_named() {
        let environment = Environment::new(uid()).with("BEARER_TOKEN_FILE", "/nowhere/at/all");
        let error = fetch(&TokenSource::discovery(&environment)).unwrap_err();
        assert!(error.to_string().starts_with("BEARER_TOKEN_FILE names"), "{error}");
    }

    #[test]
    fn a_command_gives_a_token_or_a_reason() {
        let run = |line: &str| fetch(&TokenSource::command(line));
        assert_eq!(run("echo abc.def").unwrap().as_deref(), Some("abc.def"));
        for (line, reason) in [
            ("exit 3", "exit status: 3"),
            ("echo hush; kill -TERM $$", "signal: 15"),
            ("true", "empty"),
            ("head -c 70000 /dev/zero", "more than 65536"),
            ("cat /dev/zero", "more than 65536"),
            ("printf '\\377'", "not UTF-8"),
        ] {
            let error = run(line).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("hush"), "{line}: {error}");
        }
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_all_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, mode, 0).unwrap();
        // The process that the shell leaves running holds both pipes open until it is killed.
        let line = format!("exec 3>{}; tail -f /dev/null & echo abc", pipe.display());
        // It ends at once while none of them holds it, and reads would block while one does.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        let mut pipe = std::fs::File::from(rustix::fs::open(&pipe, flags, mode).unwrap());
        let limit = Duration::from_millis(300);
        let error = fetch(&TokenSource::Command { line, limit }).unwrap_err().to_string();
        assert!(error.contains("took longer than 0.3 s"), "{error}");
        assert!(wait_until(|| pipe.read(&mut [0]).is_ok()), "it still runs");
    }
}

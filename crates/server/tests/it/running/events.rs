//! The tracing events of a server.

use crate::rig::Served;
use hither_server::{AuthSettings, Settings, ThirdPartySettings};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};
use tracing_subscriber::filter::LevelFilter;

/// The folder of all paths in these tests: only their events are kept, because the subscriber
/// receives those of the whole process.
const FOLDER: &str = "/traced";
/// A token in a query string.
const SECRET: &str = "token=hush";

/// The events in [`FOLDER`], one line per event, with its spans.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Write for Events {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        if text.contains(FOLDER) || text.contains(SECRET) {
            self.0.lock().unwrap().push(text.into_owned());
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Events {
    fn of_this_process() -> &'static Self {
        static EVENTS: OnceLock<Events> = OnceLock::new();
        EVENTS.get_or_init(|| {
            let events = Self::default();
            let writer = events.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_ansi(false)
                .with_max_level(LevelFilter::TRACE)
                .with_writer(move || writer.clone());
            subscriber.init();
            events
        })
    }

    /// The lines that contain `path`.
    fn about(&self, path: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.contains(path)).cloned().collect()
    }
}

fn has(lines: &[String], words: &[&str]) -> bool {
    lines.iter().any(|line| words.iter().all(|word| line.contains(word)))
}

fn traced(change: impl FnOnce(&mut Settings)) -> (&'static Events, Served) {
    let events = Events::of_this_process();
    let served = Served::new(|settings| {
        settings.write = true;
        settings.durable = false;
        // What a client has seen comes to its end, on a busy machine, too.
        settings.limits.stop_seconds = 30.0;
        change(settings);
    });
    std::fs::create_dir_all(served.path().join(&FOLDER[1..])).unwrap();
    (events, served)
}

#[test]
fn a_request_has_a_span_with_connection_method_path_and_client() {
    let (events, mut served) = traced(|_| {});
    let path = format!("{FOLDER}/span");
    assert_eq!(served.ask("PUT", &format!("{path}?{SECRET}"), &[], b"content").status, 201);
    assert_eq!(served.get(&format!("{path}/none"), &[]).status, 404);
    served.stop();
    let lines = events.about(&path);
    let spans = ["connection{number=", "address=127.0.0.1:", "request{connection=", "method=PUT"];
    assert!(has(&lines, &[&spans[..], &["status=201", "received=7"]].concat()), "{lines:#?}");
    assert!(has(&lines, &["status=404", "request failed"]), "{lines:#?}");
    assert!(!has(&events.about(""), &[SECRET]));
}

#[test]
fn denied_requests_and_their_reasons_are_events() {
    let (events, mut served) = traced(|settings| {
        let text = format!("root = '/'\n[auth]\nanonymous = ['{FOLDER}/open']");
        settings.auth = auth(&text);
    });
    let path = format!("{FOLDER}/denied");
    let secret = "Authorization: Bearer hush.hush.hush";
    assert_eq!(served.get(&path, &[secret]).status, 401);
    served.stop();
    let lines = events.about(&path);
    assert!(has(&lines, &["authorization denied", "action=Read", "status=401"]), "{lines:#?}");
    assert!(!has(&lines, &["hush"]), "{lines:#?}");
}

fn auth(text: &str) -> Option<AuthSettings> {
    Settings::from_toml(text).unwrap().auth
}

#[test]
fn the_steps_of_a_copy_between_servers_are_events() {
    let (events, mut served) = traced(|settings| {
        let mut third_party = ThirdPartySettings::default();
        third_party.clear_text = true;
        third_party.networks = vec!["127.0.0.1".to_owned()];
        settings.third_party = Some(third_party);
    });
    let source = format!("{FOLDER}/source");
    served.file(&source[1..], b"content");
    let url = format!("Source: http://127.0.0.1:{}{source}?{SECRET}", served.port());
    let copied = served.ask("COPY", &format!("{FOLDER}/copied"), &[&url], b"");
    assert!(copied.text().ends_with("success: Created\n"), "{}", copied.text());
    served.stop();
    let lines = events.about(&format!("{FOLDER}/copied"));
    for words in [
        &["third-party copy begins", "direction=Pull"][..],
        &["file on the other server looked up", &source],
        &["third-party copy done", "bytes=7"],
    ] {
        assert!(has(&lines, words), "{words:?} in {lines:#?}");
    }
    assert!(!has(&events.about(""), &[SECRET]));
}

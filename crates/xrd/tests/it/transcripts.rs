//! Transcripts of this client and Debian's xrootd 5.5.3, replayed byte for byte: the client has to
//! send the same messages again, whatever the pieces in which the server's bytes arrive.
//!
//! A transcript has one line per message, `>` from the client and `<` from the server, in
//! hexadecimal digits. `HITHER_WRITE_TRANSCRIPTS=1 cargo test -p hither-xrd --test it transcripts`
//! records them again if xrootd is installed.

use crate::driver::{Driver, Said};
use crate::xrootd::Xrootd;
use hither_xrd::client::{
    Completion, Credential, Pipelining, RequestError, SessionConfig, SessionEvent,
};
use hither_xrd::wire::dirlist;
use hither_xrd::wire::{
    ErrorCode, OpenRequest, Redirect, Request, VectorLimits, checksum, open, query_kind,
};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// An operation, and its expected result.
struct Scenario {
    name: &'static str,
    /// Lines of the server's configuration.
    config: &'static str,
    pipelining: Pipelining,
    unix: bool,
    run: fn(&mut Driver),
}

const UNIX: &str = "xrootd.seclib libXrdSec.so\nsec.protocol unix";

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "full",
        config: "",
        pipelining: Pipelining::Full,
        unix: false,
        run: read_small,
    },
    Scenario {
        name: "steps",
        config: "",
        pipelining: Pipelining::Steps,
        unix: false,
        run: read_small,
    },
    Scenario {
        name: "unix",
        config: UNIX,
        pipelining: Pipelining::Login,
        unix: true,
        run: read_small,
    },
    Scenario { name: "names", config: "", pipelining: Pipelining::Login, unix: false, run: names },
    Scenario {
        name: "written",
        config: "",
        pipelining: Pipelining::Login,
        unix: false,
        run: written,
    },
    Scenario { name: "absent", config: "", pipelining: Pipelining::Full, unix: false, run: absent },
    Scenario {
        name: "redirect",
        config: "xrootd.redirect 127.0.0.1:1095 /far",
        pipelining: Pipelining::Full,
        unix: false,
        run: redirected,
    },
];

fn read_small(driver: &mut Driver) {
    let (file, opened) = driver.session.open(OpenRequest::for_reading("/small"));
    let read = driver.session.read(file, 7..100);
    let vector = driver.session.read_vector(file, &[20..23, 0..6]);
    let pages = driver.session.read_pages(file, 1..23, false);
    let Completion::Opened { status, .. } = driver.reply(opened) else { panic!() };
    assert_eq!(status.unwrap().size, 23);
    assert_eq!(driver.reply(read), Completion::Read { missing: vec![23..100], damaged: vec![] });
    for request_id in [vector, pages] {
        assert_eq!(driver.reply(request_id), Completion::Read { missing: vec![], damaged: vec![] });
    }
    assert_eq!(driver.bytes(read), b"three bytes here");
    assert_eq!(driver.bytes(vector), b"twentyere");
    assert_eq!(driver.bytes(pages), b"wenty-three bytes here");
    let closed = driver.session.close(file);
    assert_eq!(driver.reply(closed), Completion::Nothing);
}

fn names(driver: &mut Driver) {
    let listed = driver.session.submit(Request::List { path: "/".into(), options: dirlist::STAT });
    driver.reply(listed);
    let mut names: Vec<_> = driver
        .events
        .iter()
        .filter_map(|event| match event {
            SessionEvent::Entries { entries, .. } => {
                Some(entries.iter().map(|entry| entry.name.clone()))
            }
            _ => None,
        })
        .flatten()
        .collect();
    names.sort();
    assert_eq!(names, ["d", "f.bin", "small"]);
    let text = "/small".to_owned();
    let query = Request::Query { kind: query_kind::CHECKSUM, text };
    let asked = driver.session.submit(query);
    let Completion::Text(text) = driver.reply(asked) else { panic!() };
    assert_eq!(checksum(&text).unwrap(), ("adler32".into(), "6e6c08fc".into()));
    let stat = driver.session.submit(Request::Stat("/d".into()));
    let Completion::Status(status) = driver.reply(stat) else { panic!() };
    assert!(status.is_directory());
    let located = driver.session.submit(Request::Locate { path: "/small".into(), options: 0 });
    let Completion::Locations(places) = driver.reply(located) else { panic!() };
    assert_eq!(places.len(), 1);
}

fn written(driver: &mut Driver) {
    let path = "/d/new".to_owned();
    let options = open::NEW | open::UPDATE | open::STAT;
    let (file, _) =
        driver.session.open(OpenRequest { path, options, more_options: 0, mode: 0o644 });
    let first = driver.session.write(file, 0, b"0123456789".as_slice().into());
    let second = driver.session.write(file, 10, b"abcdef".as_slice().into());
    assert_eq!(driver.reply(first), Completion::Nothing);
    assert_eq!(driver.reply(second), Completion::Nothing);
    let closed = driver.session.close(file);
    driver.reply(closed);
    let status = driver.session.submit(Request::Stat("/d/new".into()));
    let Completion::Status(status) = driver.reply(status) else { panic!() };
    assert_eq!(status.size, 16);
    let renamed =
        driver.session.submit(Request::Rename { from: "/d/new".into(), to: "/d/old".into() });
    assert_eq!(driver.reply(renamed), Completion::Nothing);
    let removed = driver.session.submit(Request::Remove("/d/old".into()));
    assert_eq!(driver.reply(removed), Completion::Nothing);
}

fn absent(driver: &mut Driver) {
    let (file, opened) = driver.session.open(OpenRequest::for_reading("/nothing"));
    let read = driver.session.read(file, 0..10);
    let event = driver.until(opened).unwrap();
    let SessionEvent::Failed { failure: RequestError::Refused { code, .. }, .. } = event else {
        panic!("{event:?}")
    };
    assert_eq!(code, ErrorCode::NOT_FOUND);
    assert!(matches!(
        driver.until(read).unwrap(),
        SessionEvent::Failed { failure: RequestError::NotOpen, .. }
    ));
    let ping = driver.session.submit(Request::Ping);
    assert_eq!(driver.reply(ping), Completion::Nothing);
}

fn redirected(driver: &mut Driver) {
    let (file, opened) = driver.session.open(OpenRequest::for_reading("/far/f"));
    let read = driver.session.read(file, 0..10);
    let event = driver.until(opened).unwrap();
    let SessionEvent::Redirect { redirect, .. } = event else { panic!("{event:?}") };
    assert_eq!(redirect, Redirect::to("127.0.0.1", 1095));
    assert!(matches!(
        driver.until(read).unwrap(),
        SessionEvent::Failed { failure: RequestError::NotOpen, .. }
    ));
    let ping = driver.session.submit(Request::Ping);
    assert_eq!(driver.reply(ping), Completion::Nothing);
}

impl Scenario {
    fn setup(&self) -> SessionConfig {
        let mut setup = SessionConfig::new("tester");
        setup.pipelining = self.pipelining;
        setup.profile.vector_limits = Some(VectorLimits::default());
        if self.unix {
            setup.credentials =
                vec![Credential::Unix { user: "tester".into(), group: "users".into() }];
        }
        setup
    }

    fn path(&self) -> PathBuf {
        let name = format!("tests/transcripts/{}.txt", self.name);
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
    }

    fn record(&self) {
        let Some(server) = Xrootd::start(&format!("record-{}", self.name), self.config) else {
            return;
        };
        let mut driver = Driver::connect(server.port, self.setup());
        (self.run)(&mut driver);
        let lines = driver.said.iter().map(|said| match said {
            Said::Client(bytes) => format!("> {}\n", hex(bytes)),
            Said::Server(bytes) => format!("< {}\n", hex(bytes)),
        });
        std::fs::write(self.path(), lines.collect::<String>()).unwrap();
    }

    fn recorded(&self) -> Vec<Said> {
        let text = std::fs::read_to_string(self.path()).unwrap();
        text.lines()
            .map(|line| match line.split_at(2) {
                ("> ", digits) => Said::Client(unhex(digits)),
                ("< ", digits) => Said::Server(unhex(digits)),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// Replays with the server's bytes in pieces of this size, or cut in two at one position.
    fn replay(&self, recorded: &[Said], piece: usize, cut: Option<usize>) {
        let wire = Recording { said: recorded.iter().cloned().collect(), piece, cut, given: 0 };
        let mut driver = Driver::over(Box::new(wire), self.setup());
        (self.run)(&mut driver);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

/// Acts as the server of a recording.
struct Recording {
    said: VecDeque<Said>,
    piece: usize,
    cut: Option<usize>,
    given: usize,
}

impl Read for Recording {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(Said::Server(bytes)) = self.said.front_mut() else { return Ok(0) };
        let to_cut = self.cut.and_then(|cut| cut.checked_sub(self.given)).filter(|left| *left > 0);
        let count = bytes.len().min(self.piece).min(buffer.len()).min(to_cut.unwrap_or(usize::MAX));
        for (to, from) in buffer.iter_mut().zip(bytes.drain(..count)) {
            *to = from;
        }
        self.given += count;
        if bytes.is_empty() {
            self.said.pop_front();
        }
        Ok(count)
    }
}

impl Write for Recording {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The client's next message may precede the server's last one if it does not have to wait
        // for it.
        let place = self.said.iter().position(|said| matches!(said, Said::Client(_)));
        let Some(Said::Client(expected)) = place.and_then(|place| self.said.get_mut(place)) else {
            panic!("the client says more than was recorded: {}", hex(bytes));
        };
        let count = bytes.len().min(expected.len());
        assert_eq!(hex(&bytes[..count]), hex(&expected[..count]));
        expected.drain(..count);
        if expected.is_empty() {
            place.map(|place| self.said.remove(place));
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn transcripts_are_reproduced_byte_for_byte() {
    for scenario in SCENARIOS {
        if std::env::var_os("HITHER_WRITE_TRANSCRIPTS").is_some() {
            scenario.record();
        }
        let recorded = scenario.recorded();
        for piece in [usize::MAX, 1, 2, 7, 100] {
            scenario.replay(&recorded, piece, None);
        }
        let bytes = recorded.iter().map(|said| match said {
            Said::Server(bytes) => bytes.len(),
            Said::Client(_) => 0,
        });
        for cut in 1..bytes.sum::<usize>() {
            scenario.replay(&recorded, usize::MAX, Some(cut));
        }
    }
}

//! Metrics, health and logs of a server, and its reload.

mod events;

use crate::rig::{Reply, Served, reply, write_private};
use hither_server::{AuthSettings, Settings};
use hither_testkit::waiting::wait_until;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

fn watched(change: impl FnOnce(&mut Settings)) -> Served {
    Served::new(|settings| {
        settings.write = true;
        settings.metrics = Some("127.0.0.1:0".parse().unwrap());
        settings.access_log = Some(settings.root.join("access.json"));
        change(settings);
    })
}

/// The response of the admin server to a request.
fn told(served: &Served, method: &str, path: &str) -> Reply {
    let address = served.server.as_ref().unwrap().metrics_address().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    reply(&mut stream)
}

pub(crate) fn metric(served: &Served, name: &str) -> f64 {
    let text = told(served, "GET", "/metrics").text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

/// Lets a server that stops end what its clients have seen, on a busy machine, too.
fn patient(settings: &mut Settings) {
    settings.limits.stop_seconds = 30.0;
}

/// Stops the server and returns the lines of a log once there are this many: the server waits only
/// briefly for the disk.
fn lines(served: &mut Served, file: &str, count: usize) -> Vec<Value> {
    served.stop();
    let text = || std::fs::read_to_string(served.path().join(file)).unwrap();
    assert!(wait_until(|| text().matches('\n').count() >= count), "{}", text());
    text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_access_log_has_request_response_and_connection() {
    let mut served = watched(patient);
    served.file("file", &[7; 1_000_000]);
    assert_eq!(served.get("/file", &["Range: bytes=0-9,20-29"]).status, 206);
    assert_eq!(served.ask("PUT", "/new?authz=Bearer%20abc", &[], &[1; 300_000]).status, 201);
    assert_eq!(served.get("/none", &["User-Agent: me"]).status, 404);
    let mut lines = lines(&mut served, "access.json", 3);
    // A response may arrive before its line is written.
    lines.sort_by_key(|line| line["target"].as_str().unwrap().to_owned());
    let seen = |n: usize, name: &str| lines[n][name].clone();
    assert_eq!(
        (seen(0, "method"), seen(0, "status"), seen(0, "ranges")),
        ("GET".into(), 206.into(), 2.into())
    );
    assert!(seen(0, "sent").as_u64() > Some(20) && seen(0, "complete") == true);
    assert!(
        seen(0, "disk_ms").as_f64() > Some(0.0)
            && seen(0, "ms").as_f64() >= seen(0, "head_ms").as_f64()
    );
    assert!(seen(0, "tcp")["rtt_ms"].as_f64() > Some(0.0), "{}", lines[0]);
    assert_eq!(
        (seen(0, "reason"), seen(0, "who"), seen(0, "lost")),
        (Value::Null, Value::Null, Value::Null)
    );
    assert_eq!((seen(1, "received"), seen(1, "sent")), (300_000.into(), 0.into()));
    assert!(seen(1, "disk_ms").as_f64() > Some(0.0));
    assert_eq!(seen(1, "target"), "/new?authz=...");
    assert_eq!(seen(2, "reason"), "there is no such file or directory");
    assert_eq!(seen(2, "agent"), "me");
    assert_eq!(lines.len(), 3);
}

#[test]
fn an_interrupted_response_is_logged_as_incomplete() {
    let mut served = watched(patient);
    served.file("large", &vec![7; 64 << 20]);
    let mut stream = served.connect();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    let lines = lines(&mut served, "access.json", 1);
    assert_eq!((&lines[0]["status"], &lines[0]["complete"]), (&200.into(), &false.into()));
    assert!(lines[0]["client_ms"].as_f64() > Some(0.0));
}

#[test]
fn metrics_count_requests_and_bytes() {
    let served = watched(|_| {});
    served.file("file", &[7; 1000]);
    for _ in 0..3 {
        assert_eq!(served.get("/file", &[]).status, 200);
    }
    served.ask("PUT", "/new", &[], &[1; 5000]);
    served.get("/none", &[]);
    // A response may arrive before it is counted.
    for (name, value) in [
        ("hither_requests_total{code=\"2xx\",method=\"GET\"}", 3.0),
        ("hither_requests_total{code=\"4xx\",method=\"GET\"}", 1.0),
        ("hither_requests_open{method=\"PUT\"}", 0.0),
        ("hither_received_bytes_total", 5000.0),
        ("hither_sent_bytes_total", 3000.0 + 35.0),
        ("hither_request_ranges_count", 3.0),
        ("hither_connections_total", 5.0),
        ("hither_memory_bytes", 0.0),
    ] {
        let told = || metric(&served, name);
        assert!(wait_until(|| told() == value), "{name}: {}", told());
    }
    let reply = told(&served, "GET", "/metrics");
    assert!(reply.field("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
}

#[test]
fn metrics_show_requests_that_are_running() {
    let served = watched(|_| {});
    let mut stream = served.connect();
    stream
        .write_all(
            b"PUT /f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        )
        .unwrap();
    stream.read_exact(&mut [0; 12]).unwrap();
    assert_eq!(metric(&served, "hither_requests_open{method=\"PUT\"}"), 1.0);
    assert_eq!(metric(&served, "hither_connections_open"), 1.0);
    let status: Value = serde_json::from_slice(&told(&served, "GET", "/status.json").body).unwrap();
    assert_eq!(status["uploads_open"], 1);
}

#[test]
fn health_shows_the_state_of_disk_and_space() {
    let served = watched(|_| {});
    let well = told(&served, "GET", "/healthz");
    let seen: Value = serde_json::from_slice(&well.body).unwrap();
    assert_eq!((well.status, &seen["healthy"]), (200, &true.into()));
    let full = watched(|settings| settings.limits.free_bytes = u64::MAX);
    let ill = told(&full, "GET", "/healthz");
    let seen: Value = serde_json::from_slice(&ill.body).unwrap();
    assert_eq!((ill.status, &seen["checks"]["space"]["ok"]), (503, &false.into()));
    assert_eq!(told(&served, "HEAD", "/healthz").status, 200);
}

/// Settings with a certificate that is valid until the start of a year.
fn certificate(folder: &Path, year: i32) -> Settings {
    let mut wanted = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    wanted.not_before = rcgen::date_time_ymd(2000, 1, 1);
    wanted.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let (shown, own) = (folder.join(format!("{year}.pem")), folder.join(format!("{year}.key")));
    std::fs::write(&shown, wanted.self_signed(&key).unwrap().pem()).unwrap();
    write_private(&own, &key.serialize_pem());
    Settings::from_toml(&format!("[tls]\ncertificate = {shown:?}\nkey = {own:?}")).unwrap()
}

#[test]
fn an_expired_certificate_is_unhealthy_until_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (certificate(folder.path(), 2001), certificate(folder.path(), 2999));
    let served = watched(|settings| settings.tls = old.tls);
    let seen = told(&served, "GET", "/healthz");
    assert_eq!(seen.status, 503);
    assert!(seen.text().contains("expired at 2001-01-01T00:00:00Z"), "{}", seen.text());
    let mut next = new;
    next.access_log = Some(served.path().join("access.json"));
    next.limits.min_free_bytes = Some(0);
    let left = served.server.as_ref().unwrap().reloader().reload(next);
    assert_eq!(left.unwrap(), ["root", "listen", "metrics"]);
    let seen = told(&served, "GET", "/healthz");
    assert_eq!(seen.status, 200);
    assert!(seen.text().contains("valid until 2999-01-01T00:00:00Z"), "{}", seen.text());
    let mut stream = served.connect();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    // The client may see the end of the connection before the server has counted it.
    let failed = || metric(&served, "hither_connections_failed_total{reason=\"handshake\"}");
    assert!(wait_until(|| failed() == 1.0), "{}", failed());
}

#[test]
fn a_stopping_server_is_unhealthy() {
    let mut served = watched(patient);
    served.file("large", &vec![7; 32 << 20]);
    let mut stream = served.connect();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 12]).unwrap();
    served.server.as_ref().unwrap().stopper().stop();
    let seen = told(&served, "GET", "/healthz");
    assert!(seen.status == 503 && seen.text().contains("being stopped"), "{}", seen.text());
    stream.read_to_end(&mut Vec::new()).unwrap();
    let lines = lines(&mut served, "access.json", 1);
    assert_eq!(lines[0]["complete"], true);
}

#[test]
fn the_status_page_may_run_only_its_own_script() {
    let served = watched(|_| {});
    served.file("file", b"1");
    served.get("/file", &[]);
    let page = told(&served, "GET", "/status");
    let policy = page.field("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(page.text().contains("\"path\":\"/file\""));
    assert_eq!(told(&served, "GET", "/").status, 302);
    assert_eq!(told(&served, "GET", "/none").status, 404);
    assert_eq!(told(&served, "POST", "/metrics").status, 405);
}

#[test]
fn settings_change_while_requests_run() {
    let served = watched(|settings| settings.limits.ranges = 3);
    served.file("file", &[7; 1000]);
    let (fine, many) = ("Range: bytes=0-0,2-2,4-4", "Range: bytes=0-0,2-2,4-4,6-6");
    assert_eq!(
        (served.get("/file", &[fine]).status, served.get("/file", &[many]).status),
        (206, 416)
    );
    let server = served.server.as_ref().unwrap();
    let mut next = Settings::new(served.path());
    next.access_log = Some(served.path().join("access.json"));
    next.listen = vec!["127.0.0.1:1".parse().unwrap()];
    next.metrics = Some("127.0.0.1:0".parse().unwrap());
    next.limits.stop_seconds = 1.0;
    next.limits.min_free_bytes = Some(0);
    assert_eq!(server.reloader().reload(next.clone()).unwrap(), ["listen"]);
    assert_eq!(served.get("/file", &[many]).status, 206);
    assert_eq!(served.ask("PUT", "/new", &[], b"1").status, 403, "for reading from now on");
    // If one setting is invalid, none of them takes effect.
    next.write = true;
    next.limits.ranges = 0;
    let error = server.reloader().reload(next.clone()).unwrap_err();
    assert!(error.to_string().contains("limits.ranges"), "{error}");
    next.limits.ranges = 1;
    next.access_log = Some("/no/where/access.json".into());
    let error = server.reloader().reload(next.clone()).unwrap_err();
    assert!(error.to_string().contains("/no/where/access.json"), "{error}");
    assert_eq!(served.get("/file", &[many]).status, 206);
    assert_eq!(served.ask("PUT", "/new", &[], b"1").status, 403);
    next.access_log = Some(served.path().join("access.json"));
    next.auth = Some(AuthSettings::default());
    server.reloader().reload(next).unwrap();
    assert_eq!(served.get("/file", &[]).status, 401, "nobody may do anything now");
}

#[test]
fn a_reload_reopens_a_rotated_access_log() {
    let mut served = watched(|_| {});
    served.file("file", b"1");
    served.get("/file", &[]);
    let (log, old) = (served.path().join("access.json"), served.path().join("access.json.1"));
    let mut same = Settings::new(served.path());
    same.access_log = Some(log.clone());
    patient(&mut same);
    assert!(wait_until(|| std::fs::read_to_string(&log).unwrap().ends_with('\n')));
    std::fs::rename(&log, &old).unwrap();
    served.server.as_ref().unwrap().reloader().reload(same).unwrap();
    served.get("/file?2", &[]);
    let new = lines(&mut served, "access.json", 1);
    let old: Vec<_> = std::fs::read_to_string(old).unwrap().lines().map(str::to_owned).collect();
    assert_eq!((new.len(), old.len()), (1, 1));
    assert_eq!(new[0]["target"], "/file?2");
}

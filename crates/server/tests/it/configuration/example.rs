//! The example that packages install in /etc/hither.

use crate::rig::{Served, write_private};
use hither_server::Settings;
use std::path::Path;

const EXAMPLE: &str = include_str!("../../../../../packaging/serve.toml");

/// The example with every optional setting.
fn with_options() -> String {
    // A comment has a space after its `#`, an optional setting does not.
    let uncomment = |line: &'static str| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting,
        _ => line,
    };
    EXAMPLE.lines().map(uncomment).collect::<Vec<_>>().join("\n")
}

/// A server with these settings, except for addresses and paths that tests do not have.
fn served(text: &str) -> Served {
    let example = Settings::from_toml(text).unwrap();
    Served::new(|settings| {
        let folder = &std::mem::take(&mut settings.root);
        let listen = std::mem::take(&mut settings.listen);
        *settings = example;
        settings.root = folder.join("served");
        settings.listen = listen;
        std::fs::create_dir(&settings.root).unwrap();
        std::fs::write(settings.root.join("file"), "content").unwrap();
        settings.access_log = Some(folder.join("access.json"));
        settings.metrics = settings.metrics.map(|_| "127.0.0.1:0".parse().unwrap());
        settings.limits.stop_seconds = 1.0;
        let pem = certificate(folder);
        if let Some(tls) = &mut settings.tls {
            (tls.certificate, tls.key) = (pem.clone(), pem.clone());
        }
        if let Some(auth) = &mut settings.auth {
            auth.authorities = Some(pem);
        }
        // The tape helper is started only by the command.
        settings.tape = None;
        if let Some(lots) = &mut settings.lots {
            lots.bytes = 1000;
        }
    })
}

/// A file with a certificate and its key.
fn certificate(folder: &Path) -> std::path::PathBuf {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let path = folder.join("host.pem");
    write_private(&path, &(made.cert.pem() + &made.signing_key.serialize_pem()));
    path
}

#[test]
fn a_server_starts_with_the_example() {
    let settings = Settings::from_toml(EXAMPLE).unwrap();
    assert!(settings.listen.iter().all(|address| address.ip().is_loopback()) && !settings.write);
    let served = served(EXAMPLE);
    assert_eq!(served.get("/file", &[]).text(), "content");
    assert_eq!(served.ask("PUT", "/other", &[], b"content").status, 403);
}

#[test]
fn a_server_starts_with_every_option_of_the_example() {
    let settings = Settings::from_toml(&with_options()).unwrap();
    assert!(settings.write && settings.tls.is_some() && settings.lots.is_some());
    assert!(settings.auth.is_some() && settings.third_party.is_some());
    assert_eq!(settings.limits, Settings::new("/").limits);
    let served = served(&with_options());
    let server = served.server.as_ref().unwrap();
    assert!(server.urls()[0].starts_with("https://") && server.metrics_address().is_some());
}

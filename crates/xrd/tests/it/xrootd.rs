//! A real server, if one is installed.

use hither_testkit::test_server::ReservedPort;
use hither_testkit::waiting::wait_until;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) struct Xrootd {
    child: Child,
    pub(crate) port: u16,
    _reserved: ReservedPort,
    folder: PathBuf,
}

/// `size` bytes without repetition.
pub(crate) fn content(size: usize) -> Vec<u8> {
    let mut state = 1_u64;
    std::iter::repeat_with(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    })
    .take(size)
    .collect()
}

impl Xrootd {
    /// Serves a new folder with `f.bin` (5,000,000 bytes), `small` (23 bytes) and an empty folder
    /// `d`, with additional lines of configuration. Prints a message and returns `None` if xrootd
    /// is not installed.
    pub(crate) fn start(test: &str, more: &str) -> Option<Self> {
        let found =
            Command::new("xrootd").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if found.is_err() {
            eprintln!("{test}: skipped, xrootd is not installed");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("hither-xrd-{}-{test}", std::process::id()));
        let data = folder.join("data");
        std::fs::create_dir_all(data.join("d")).unwrap();
        std::fs::create_dir_all(folder.join("admin")).unwrap();
        std::fs::write(data.join("f.bin"), content(5_000_000)).unwrap();
        std::fs::write(data.join("small"), "twenty-three bytes here").unwrap();
        if more.contains("xrd.tls") {
            certify(&folder);
        }
        let reserved = ReservedPort::new().unwrap();
        let port = reserved.number().unwrap();
        let config = folder.join("config");
        let at = folder.display();
        let lines = format!(
            "xrd.port {port}\noss.localroot {at}/data\nall.export /\nall.adminpath {at}/admin\n\
             all.pidpath {at}/admin\nxrootd.chksum adler32\n{more}\n"
        );
        let lines = lines.replace("FOLDER", &at.to_string());
        std::fs::write(&config, lines).unwrap();
        let mut command = if folder.metadata().unwrap().uid() == 0 {
            own(&folder);
            as_root()
        } else {
            Command::new("xrootd")
        };
        command.args(["-I", "v4", "-p", &port.to_string(), "-l"]).arg(folder.join("log"));
        let child = command.arg("-c").arg(&config).current_dir(&folder).spawn().unwrap();
        let server = Self { child, port, _reserved: reserved, folder };
        server.wait();
        Some(server)
    }

    /// Waits until it accepts connections.
    fn wait(&self) {
        let accepts = || TcpStream::connect(("127.0.0.1", self.port)).is_ok();
        let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        assert!(wait_until(accepts), "xrootd did not start: {}", log());
    }
}

/// Creates a self-signed certificate.
fn certify(folder: &Path) {
    let done = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"])
        .current_dir(folder)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(done.success());
}

/// The command for root: xrootd refuses to run as root, and does not start on a machine whose name
/// has no address, so the machine is named localhost for it.
fn as_root() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-c", "hostname localhost && exec \"$@\"", "sh"]);
    command.args(["xrootd", "-R", "nobody"]);
    command
}

/// Makes the server's user the owner of all files.
fn own(folder: &Path) {
    let done = Command::new("chown").args(["-R", "nobody"]).arg(folder).status().unwrap();
    assert!(done.success());
}

impl Drop for Xrootd {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

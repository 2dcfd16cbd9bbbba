//! The results of a profile of a path, and its page for people.

use super::WORTHWHILE;
use serde::Serialize;

/// A profile of the path to a file. A figure is none where it was not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PathProfile {
    /// URL of the file, without secrets.
    pub url: String,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Duration of the profile.
    pub seconds: f64,
    /// Bytes received, with headers and framing.
    pub bytes_received: u64,
    /// The caller ended the profile.
    pub interrupted: bool,
    /// Shortest handshake of TCP, with the server, a tunnel or a proxy.
    pub tcp_handshake_ms: Option<f64>,
    /// Shortest handshake of TLS, with the CPU time of both ends.
    pub tls_handshake_ms: Option<f64>,
    /// Shortest request of one byte on an open connection, with the time of the server.
    pub request_ms: Option<f64>,
    /// Rates by the number of connections, ascending.
    pub bandwidth: Vec<BandwidthStep>,
    /// The limit that the rates show.
    pub limit: PathLimit,
    /// Segments of TCP that this end sent again.
    pub retransmits: u64,
    /// Segments that this end sent.
    pub segments_sent: u64,
    /// Segments that came before an earlier one, which was lost or overtaken.
    pub out_of_order: u64,
    /// Segments with data that were received.
    pub segments_received: u64,
    /// Largest window in bytes that this kernel offered (since Linux 6.2).
    pub receive_window: Option<u32>,
    /// Largest window that the server's kernel offered, which limits uploads (since Linux 5.4).
    pub peer_window: Option<u32>,
    /// Largest receive buffer by auto-tuning (`net.ipv4.tcp_rmem`).
    pub tcp_rmem_max: Option<u64>,
    /// Largest receive buffer that a program may set (`net.core.rmem_max`).
    pub rmem_max: Option<u64>,
    /// CPU seconds of this process per 10^9 bytes of the file, including TLS.
    pub cpu_seconds_per_gb: Option<f64>,
    /// Advice, with the numbers behind it, and failures of single connections.
    pub advice: Vec<String>,
}

/// The rate of some connections together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BandwidthStep {
    /// Connections.
    pub connections: usize,
    /// Bytes of the file per second, once the rate was steady.
    pub bytes_per_s: f64,
}

/// The limit of the rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PathLimit {
    /// A limit of each connection: two are faster than one.
    Connection,
    /// A limit of all connections together: the path, the server or this machine.
    Path,
    /// Not measured.
    #[default]
    Unknown,
}

impl PathLimit {
    pub(super) fn of(steps: &[BandwidthStep]) -> Self {
        match steps {
            [one, two, ..] if two.bytes_per_s >= WORTHWHILE * one.bytes_per_s => Self::Connection,
            [_, _, ..] => Self::Path,
            _ => Self::Unknown,
        }
    }
}

/// A rate in decimal units.
pub(super) fn rate(bytes_per_s: f64) -> String {
    format!("{:.2} MB/s", bytes_per_s / 1e6)
}

/// A number of bytes in binary units.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
}

impl PathProfile {
    /// The profile as a page of text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
        let ms = |time: Option<f64>| known(time.map(|it| format!("{it:.2} ms")));
        let size = |bytes: Option<u64>| known(bytes.map(mebibytes));
        let file = mebibytes(self.file_bytes);
        let received = mebibytes(self.bytes_received);
        let ended = if self.interrupted { ", interrupted" } else { "" };
        let window = size(self.receive_window.map(u64::from));
        let limits = format!("{}, tcp_rmem {}", size(self.rmem_max), size(self.tcp_rmem_max));
        let cost = self.cpu_seconds_per_gb.map(|it| format!("{it:.2} s per GB"));
        let rows = [
            ("measured", format!("{:.1} s, {received} received, file {file}{ended}", self.seconds)),
            ("TCP handshake", ms(self.tcp_handshake_ms)),
            ("TLS handshake", ms(self.tls_handshake_ms)),
            ("request of one byte", ms(self.request_ms)),
            ("out of order", format!("{} of {}", self.out_of_order, self.segments_received)),
            ("sent again", format!("{} of {}", self.retransmits, self.segments_sent)),
            ("window of this kernel", format!("{window} (rmem_max {limits})")),
            ("window of the server", size(self.peer_window.map(u64::from))),
            ("CPU time", known(cost)),
        ];
        let rows = rows.map(|(name, value)| format!("  {name:<22} {value}\n"));
        let step = |it: &BandwidthStep| {
            format!("  connections: {:<9} {}\n", it.connections, rate(it.bytes_per_s))
        };
        let steps: String = self.bandwidth.iter().map(step).collect();
        let advice: String = self.advice.iter().map(|it| format!("- {it}\n")).collect();
        format!("Path to {}\n{}{steps}{advice}", self.url, rows.concat())
    }
}

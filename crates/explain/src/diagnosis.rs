//! The diagnosis of a job, as text and as data.

use super::activity::PhaseSeconds;
use serde::Serialize;
use std::fmt::Write;

/// The limit of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bottleneck {
    /// Decompressing, unpacking and computing.
    Decode,
    /// Reading files at the server.
    ServerDisk,
    /// The rate of the path.
    PathRate,
    /// Round trips that depend on each other.
    RoundTrips,
    /// The window of each connection.
    Window,
    /// The growth of windows at the beginning of connections.
    SlowStart,
    /// Loss of segments.
    Loss,
    /// The server's limit on the rate of each connection.
    ConnectionCap,
    /// The number of requests that the server serves at the same time.
    ServerConcurrency,
    /// Opening connections, and following redirects.
    SetUp,
    /// One replica that is slower than the others.
    SlowReplica,
    /// Writing to this machine's disk.
    LocalDisk,
    /// Other work of this machine, or the program that reads the output.
    ThisMachine,
}

impl Bottleneck {
    /// The subject of a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decode => "decoding",
            Self::ServerDisk => "the server's disk",
            Self::PathRate => "the path's rate",
            Self::RoundTrips => "waiting for round trips",
            Self::Window => "the window of each connection",
            Self::SlowStart => "the slow start of the connections",
            Self::Loss => "loss on the path",
            Self::ConnectionCap => "the server's cap per connection",
            Self::ServerConcurrency => "the server's concurrency",
            Self::SetUp => "setting up connections and following redirects",
            Self::SlowReplica => "one slow replica",
            Self::LocalDisk => "this machine's disk",
            Self::ThisMachine => "other work of this machine",
        }
    }
}

/// A measured figure that the diagnosis rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvidenceItem {
    /// The measured quantity.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// Its unit: `s`, `ms`, `MB/s`, `bytes`, `%`, or empty for a count.
    pub unit: &'static str,
}

/// The bottleneck of a job, with evidence and advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Its name.
    pub bottleneck: Bottleneck,
    /// The duration of the job, in seconds.
    pub job_seconds: f64,
    /// The seconds of it that the bottleneck accounts for.
    pub seconds: f64,
    /// True if no figure shows it directly: the other causes are excluded, or less likely.
    pub inferred: bool,
    /// The figures that support it.
    pub evidence: Vec<EvidenceItem>,
    /// The change to make.
    pub change: String,
    /// The seconds that the change saves; none if they cannot be predicted.
    pub gain_seconds: Option<f64>,
    /// The time of the job by phase.
    pub phases: PhaseSeconds,
}

impl Diagnosis {
    /// One sentence that names the bottleneck.
    #[must_use]
    pub fn sentence(&self) -> String {
        let name = self.bottleneck.name();
        let mut letters = name.chars();
        let first = letters.next().map(|it| it.to_uppercase().to_string()).unwrap_or_default();
        let inferred = if self.inferred { " (inferred)" } else { "" };
        format!(
            "{first}{} limits this job{inferred}: {:.2} of {:.2} s.",
            letters.as_str(),
            self.seconds,
            self.job_seconds
        )
    }

    /// The sentence, the evidence, the change to make, and the time that it saves.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = self.sentence() + "\n";
        for EvidenceItem { name, value, unit } in &self.evidence {
            let digits = if unit.is_empty() || *unit == "bytes" { 0 } else { 2 };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name:<40} {value:>12.digits$} {unit}");
        }
        let gain = self.gain_seconds.map(|it| format!(" This saves about {it:.2} s."));
        let _ = writeln!(text, "To change: {}.{}", self.change, gain.unwrap_or_default());
        text
    }
}

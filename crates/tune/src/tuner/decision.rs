//! Decisions of a tuner, with the measurements that led to them.

use super::interval::Bottleneck;
use super::path_signal::PathSignal;
use std::fmt;
use std::time::Duration;

/// The number that a tuner sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunedKnob {
    /// Connections; its units are bytes.
    Connections,
    /// Small files at a time; its units are files.
    SmallFiles,
    /// Files at a time that servers move between them; its units are bytes.
    ThirdPartyFiles,
    /// Files at a time that are uploaded by one request each; its units are bytes.
    Uploads,
    /// Requests at a time that upload a block each; its units are bytes.
    Blocks,
}

/// The phase after a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TuningPhase {
    /// The setting is doubled, or halved.
    Ladder,
    /// The setting that was chosen is measured once more.
    Settle,
    /// The setting is kept, but for rare trials.
    Hold,
    /// Packets queue on the path: the setting is lowered for other flows.
    Share,
}

/// The reason of a decision. A gain is a logarithm: 0.03 is 3 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// The first step showed the rate to compare with.
    FirstStep,
    /// The doubling raised the rate.
    Gained {
        /// The logarithm of the new rate over the best one before.
        gain: f64,
    },
    /// The doubling raised the rate too little; one more shows whether that was chance.
    SmallGain {
        /// As above.
        gain: f64,
    },
    /// More connections were slower, so fewer are tried.
    FewerAreFaster,
    /// The smallest setting within 3 % of the best one.
    SmallestGood,
    /// The stage behind the network is slower.
    DownstreamSlower,
    /// A trial of another setting is due.
    Trial,
    /// The other setting is better, or as good and smaller.
    TrialKept {
        /// The logarithm of its rate over that of the present setting.
        gain: f64,
    },
    /// The other setting is not better.
    TrialReverted {
        /// As above.
        gain: f64,
    },
    /// The rate has changed at the same setting.
    Changed {
        /// The logarithm of the rate over the one before.
        change: f64,
    },
    /// Packets queue on the path, or are lost.
    QueueSeen,
    /// No packets queue any more, so the setting grows a little.
    NoQueue,
    /// No packets have queued for a long time.
    QueueGone,
    /// A server refused one more.
    Refused,
}

/// One decision of a tuner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TuningDecision {
    /// When, by the caller's clock.
    pub at: Duration,
    /// The number that was set.
    pub knob: TunedKnob,
    /// The phase from now on.
    pub phase: TuningPhase,
    /// The rate of the interval before, in units per second.
    pub rate: f64,
    /// The stage that limited it.
    pub bottleneck: Bottleneck,
    /// The state of the path.
    pub signal: PathSignal,
    /// The setting of that interval.
    pub from: usize,
    /// The setting from now on.
    pub to: usize,
    /// The reason.
    pub reason: Reason,
}

impl TunedKnob {
    /// The name for tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::SmallFiles => "small_files",
            Self::ThirdPartyFiles => "files",
            Self::Uploads => "uploads",
            Self::Blocks => "blocks",
        }
    }
}

impl TuningPhase {
    /// The name for tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Settle => "settle",
            Self::Hold => "hold",
            Self::Share => "share",
        }
    }
}

/// A change in percent: that of a logarithm.
fn percent(logarithm: f64) -> f64 {
    100.0 * logarithm.exp_m1()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstStep => f.write_str("first rate known: try twice as many"),
            Self::Gained { gain } => write!(f, "{:+.0} %: try twice as many", percent(*gain)),
            Self::SmallGain { gain } => write!(f, "only {:+.0} %: try once more", percent(*gain)),
            Self::FewerAreFaster => f.write_str("more are slower: try half as many"),
            Self::SmallestGood => f.write_str("smallest within 3 % of the best"),
            Self::DownstreamSlower => f.write_str("writing is slower than the network"),
            Self::Trial => f.write_str("trial of another number"),
            Self::TrialKept { gain } => write!(f, "trial kept: {:+.0} %", percent(*gain)),
            Self::TrialReverted { gain } => {
                write!(f, "trial given back: {:+.0} %", percent(*gain))
            }
            Self::Changed { change } => write!(f, "rate changed by {:+.0} %", percent(*change)),
            Self::QueueSeen => f.write_str("packets queue on the path: give way"),
            Self::NoQueue => f.write_str("no queue on the path: grow"),
            Self::Refused => f.write_str("a server refused one more"),
            Self::QueueGone => f.write_str("no queue on the path for long: search again"),
        }
    }
}

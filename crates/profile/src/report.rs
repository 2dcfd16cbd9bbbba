//! The result of a profile.

mod html;
mod text;

use crate::category::Category;
use crate::connections::Connection;
use crate::counters::Counters;
use crate::off_cpu::OffCpu;
use crate::tally::{Division, ModuleId, shares};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The method of sampling.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sampling {
    /// `machine`: all processes and the kernel. `own_processes`: outside the kernel only. `none`:
    /// only counters.
    pub mode: &'static str,
    /// Samples per second of each CPU.
    pub rate_hz: u32,
    /// Samples of CPUs that were not idle.
    pub samples: u64,
    /// The number of samples expected for the busy time.
    pub expected: u64,
    /// Samples that the kernel could not record.
    pub lost: u64,
    /// The time that one sample takes from the interrupted program; none if it could not be
    /// measured.
    pub microseconds_each: Option<f64>,
    /// The share of the CPUs' time that sampling took, by that measurement.
    pub overhead_percent: f64,
    /// The share of busy time that was charged to the callers of code that enables interrupts.
    pub skid_percent: f64,
}

/// A profile. Shares are in percent of the time of all CPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Profile {
    /// The processes that were profiled.
    pub target: String,
    /// Release of the kernel.
    pub kernel: String,
    /// CPUs of the machine.
    pub cpus: usize,
    /// The duration of the profile.
    pub seconds: f64,
    /// Bytes moved meanwhile.
    pub bytes: u64,
    /// `option`, or `interfaces` for the counters of the network interfaces.
    pub bytes_from: &'static str,
    /// The share of each [`Category`]; the sum is exactly 100.
    pub shares: BTreeMap<&'static str, f64>,
    /// CPU seconds of each category per 10^9 bytes; none if no bytes were moved.
    pub cpu_seconds_per_gb: Option<BTreeMap<&'static str, f64>>,
    /// Busy time by context: system call, softirq, and others.
    pub contexts: BTreeMap<String, f64>,
    /// Copies by the category that they were made for.
    pub copies: BTreeMap<&'static str, f64>,
    /// Parts of the application: programs and libraries, and crates of programs in Rust.
    pub parts: BTreeMap<String, f64>,
    /// Waiting times of the profiled threads; none for a profile of the whole machine.
    pub off_cpu: Option<OffCpu>,
    /// Events of the kernel.
    pub counters: Counters,
    /// The counters per 10^9 bytes.
    pub counters_per_gb: Option<Counters>,
    /// The time in which some task waited for `cpu`, `io` and `memory`.
    pub pressure: BTreeMap<&'static str, f64>,
    /// TCP connections of the profiled processes.
    pub connections: Vec<Connection>,
    /// The method of sampling.
    pub sampling: Sampling,
    /// Programs and libraries that were sampled.
    pub modules: Vec<ModuleId>,
    /// Limits of the profile, and how to remove them.
    pub notes: Vec<String>,
    /// Call chains with their samples, in the form of flame graphs; not part of the JSON.
    #[serde(skip)]
    pub folded: BTreeMap<String, u64>,
}

impl Profile {
    /// Sets all fields that follow from the division of the CPUs' time.
    pub(crate) fn divide(&mut self, division: &Division) {
        let all: f64 = division.seconds.values().sum();
        let percent = |seconds: &f64| round(100.0 * seconds / all.max(f64::MIN_POSITIVE));
        let shares = shares(&division.seconds);
        self.shares = shares.iter().map(|(category, share)| (category.key(), *share)).collect();
        let is_work = |it: &&Category| !matches!(it, Category::Idle | Category::Steal);
        self.cpu_seconds_per_gb = (self.bytes > 0).then(|| {
            let of = |it: &Category| division.seconds.get(it).copied().unwrap_or_default();
            let per_gb = |it: &Category| (it.key(), of(it) / (self.bytes as f64 / 1e9));
            Category::ALL.iter().filter(is_work).map(per_gb).collect()
        });
        let copies = division.copies.iter();
        self.copies = copies.map(|(category, it)| (category.key(), percent(it))).collect();
        self.contexts =
            division.contexts.iter().map(|(it, s)| (it.key().to_owned(), percent(s))).collect();
        self.parts = division.parts.iter().map(|(it, s)| (it.clone(), percent(s))).collect();
        let idle = [Category::Idle, Category::Steal].iter();
        let idle: f64 = idle.filter_map(|it| division.seconds.get(it)).sum();
        self.sampling.skid_percent =
            round(100.0 * division.skid / (all - idle).max(f64::MIN_POSITIVE));
    }

    /// The share of a category in percent.
    #[must_use]
    pub fn share(&self, category: Category) -> f64 {
        self.shares.get(category.key()).copied().unwrap_or_default()
    }

    /// Call chains with their samples, one per line, in the format of `flamegraph.pl` and inferno.
    #[must_use]
    pub fn to_folded(&self) -> String {
        self.folded.iter().fold(String::new(), |mut text, (stack, count)| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{stack} {count}");
            text
        })
    }

    /// The report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::page(self)
    }

    /// The report as an HTML page without scripts or links.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::page(self)
    }
}

/// `number` with two decimals.
fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

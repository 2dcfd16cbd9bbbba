//! The decisions of the tuners of a copy, as a table and as JSON.

use crate::interrupt;
use crate::output::{eprint_line, human_bytes};
use hither::{CopyProgress, TunedKnob, TuningDecision};
use serde_json::{Value, json};
use std::sync::Arc;

/// Prints the decisions so far if Ctrl-C ends the copy.
pub(crate) fn print_if_interrupted(progress: &Arc<CopyProgress>) {
    let progress = Arc::clone(progress);
    interrupt::report(move || print_table(&progress.tuning()));
}

/// Prints the decisions as a table.
pub(crate) fn print_table(decisions: &[TuningDecision]) {
    if decisions.is_empty() {
        return eprint_line("nothing to tune: no server took part, or the copy was too short");
    }
    eprint_line("  time  what         phase   limited by        rate   rtt   setting  why");
    for it in decisions {
        let rtt = it.signal.rtt.map_or_else(String::new, |rtt| format!("{}ms", rtt.as_millis()));
        let setting = format!("{}->{}", it.from, it.to);
        eprint_line(&format!(
            "{:>5.1}s  {:<11}  {:<6}  {:<10} {:>11}  {rtt:>5}  {setting:>8}  {}",
            it.at.as_secs_f64(),
            it.knob.name().replace('_', " "),
            it.phase.name(),
            it.bottleneck.name(),
            rate(it),
            it.reason,
        ));
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for people")]
fn rate(decision: &TuningDecision) -> String {
    if decision.knob == TunedKnob::SmallFiles {
        format!("{:.0} files/s", decision.rate)
    } else {
        format!("{}/s", human_bytes(decision.rate as u64))
    }
}

/// The decisions as a JSON array.
pub(crate) fn as_json(decisions: &[TuningDecision]) -> Value {
    let object = |it: &TuningDecision| {
        json!({
            "seconds": it.at.as_secs_f64(),
            "knob": it.knob.name(),
            "phase": it.phase.name(),
            "rate": it.rate,
            "limited_by": it.bottleneck.name(),
            "rtt_ratio": it.signal.rtt_ratio(),
            "from": it.from,
            "to": it.to,
            "reason": it.reason.to_string(),
        })
    };
    decisions.iter().map(object).collect()
}

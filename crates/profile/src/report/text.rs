//! The report of a profile as text.

use super::Profile;
use crate::category::Category;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// Maximum number of parts and of connections in the report.
const MAX_LISTED: usize = 10;

pub(super) fn page(profile: &Profile) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        page,
        "{} for {:.1} s on {} CPUs, Linux {}, {:.3} GB moved\n",
        profile.target,
        profile.seconds,
        profile.cpus,
        profile.kernel,
        profile.bytes as f64 / 1e9,
    );
    let _ = writeln!(page, "{:<36} {:>8} {:>10}   as of 2004", "", "% of CPUs", "CPU s/GB");
    for category in Category::ALL {
        let per_gb = profile.cpu_seconds_per_gb.as_ref().and_then(|it| it.get(category.key()));
        let per_gb = per_gb.map(|it| format!("{it:.4}")).unwrap_or_default();
        let title = category.title();
        let bar = category.bar_2004();
        let _ =
            writeln!(page, "{title:<36} {:>8.2} {per_gb:>10}   {bar}", profile.share(*category));
    }
    list(&mut page, "Of the programs themselves", &profile.parts);
    list(&mut page, "Copies, by what they were made for", &profile.copies);
    list(&mut page, "Busy time by context", &profile.contexts);
    if let Some(off_cpu) = &profile.off_cpu {
        let title = format!("Time of {} threads", off_cpu.threads);
        list(&mut page, &title, &off_cpu.shares);
    }
    counters(&mut page, profile);
    connections(&mut page, profile);
    let sampling = &profile.sampling;
    let _ = writeln!(
        page,
        "\n{} samples of {} expected at {} Hz, {} lost; sampling took {:.2} % of the CPUs; skid {:.1} %",
        sampling.samples,
        sampling.expected,
        sampling.rate_hz,
        sampling.lost,
        sampling.overhead_percent,
        sampling.skid_percent,
    );
    for note in &profile.notes {
        let _ = writeln!(page, "note: {note}");
    }
    page
}

/// Shares, the largest first.
fn list<K: Display>(page: &mut String, title: &str, shares: &BTreeMap<K, f64>) {
    if shares.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n{title}, %");
    let mut rows: Vec<_> = shares.iter().collect();
    rows.sort_by(|a, b| b.1.total_cmp(a.1));
    for (name, share) in rows.iter().take(MAX_LISTED) {
        let _ = writeln!(page, "  {:<34} {share:>8.2}", name.to_string());
    }
    if rows.len() > MAX_LISTED {
        let rest: f64 = rows.iter().skip(MAX_LISTED).map(|(_, share)| **share).sum();
        let _ = writeln!(page, "  {:<34} {rest:>8.2}", "others");
    }
}

fn counters(page: &mut String, profile: &Profile) {
    let _ = writeln!(page, "\n{:<36} {:>12} {:>12}", "Counters", "number", "per GB");
    let all = &profile.counters;
    let per_gb = profile.counters_per_gb.as_ref();
    let rows = [
        ("CPU seconds outside the kernel", all.user_seconds, per_gb.and_then(|it| it.user_seconds)),
        ("CPU seconds in the kernel", all.kernel_seconds, per_gb.and_then(|it| it.kernel_seconds)),
        ("system calls (machine)", all.system_calls, per_gb.and_then(|it| it.system_calls)),
        ("context switches", Some(all.context_switches), per_gb.map(|it| it.context_switches)),
        ("page faults", Some(all.page_faults), per_gb.map(|it| it.page_faults)),
        ("huge pages (machine)", Some(all.huge_pages), per_gb.map(|it| it.huge_pages)),
        ("interrupts (machine)", Some(all.interrupts), per_gb.map(|it| it.interrupts)),
        ("misses of the data TLB (machine)", all.dtlb_misses, per_gb.and_then(|it| it.dtlb_misses)),
    ];
    for (title, number, per_gb) in rows {
        let Some(number) = number else { continue };
        let decimals = if title.starts_with("CPU") { 3 } else { 0 };
        let per_gb = per_gb.map(|it| format!("{it:.decimals$}")).unwrap_or_default();
        let _ = writeln!(page, "  {title:<34} {number:>12.decimals$} {per_gb:>12}");
    }
    for (what, share) in &profile.pressure {
        let _ = writeln!(page, "  {:<34} {share:>12.1}", format!("% of the time short of {what}"));
    }
}

fn connections(page: &mut String, profile: &Profile) {
    let count = profile.connections.len();
    if count > 0 {
        let _ = writeln!(page, "\nTCP connections: {count}");
    }
    for it in profile.connections.iter().take(MAX_LISTED) {
        let _ = writeln!(
            page,
            "  {} - {} {}: RTT {:.2} ms, cwnd {}, {} sent again, {:.3} GB sent, {:.3} GB received, \
             limited by the peer's window {:.0} %, by the send buffer {:.0} %",
            it.local,
            it.peer,
            it.congestion,
            it.rtt_ms,
            it.cwnd,
            it.retransmits,
            it.sent as f64 / 1e9,
            it.received as f64 / 1e9,
            it.receive_window_limited,
            it.send_buffer_limited,
        );
    }
}

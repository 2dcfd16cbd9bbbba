//! Metrics of the servers behind a backend, in the text format of Prometheus.

use crate::backend::referral::BackendServer;
use std::fmt::Write as _;

/// Writes the samples of a metric from one server.
type Samples = fn(&BackendServer, &str, &mut String);

// Writing to a String cannot fail.
const METRICS: [(&str, &str, &str, Samples); 4] = [
    (
        "hither_endpoint_up",
        "gauge",
        "1 if the endpoint is used, 0 while it is down.",
        |server, name, out| {
            let _ = writeln!(
                out,
                "hither_endpoint_up{{endpoint=\"{name}\"}} {}",
                u8::from(server.is_up)
            );
        },
    ),
    (
        "hither_endpoint_answer_seconds",
        "gauge",
        "Usual time of its answers.",
        |server, name, out| {
            let seconds = server.answer_seconds;
            let _ =
                writeln!(out, "hither_endpoint_answer_seconds{{endpoint=\"{name}\"}} {seconds}");
        },
    ),
    (
        "hither_endpoint_questions_total",
        "counter",
        "Requests to the endpoint.",
        |server, name, out| {
            for (outcome, count) in [("answered", server.answered), ("failed", server.failed)] {
                let _ = writeln!(
                    out,
                    "hither_endpoint_questions_total{{endpoint=\"{name}\",outcome=\"{outcome}\"}} {count}"
                );
            }
        },
    ),
    (
        "hither_endpoint_conflicts_total",
        "counter",
        "Names of which it shows another kind, size or checksum than most, or no size.",
        |server, name, out| {
            let count = server.conflicts;
            let _ = writeln!(out, "hither_endpoint_conflicts_total{{endpoint=\"{name}\"}} {count}");
        },
    ),
];

/// The metrics of these servers; empty if there are none.
pub(crate) fn text(servers: &[BackendServer]) -> String {
    let mut out = String::new();
    if servers.is_empty() {
        return out;
    }
    let escaped = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    for (metric, kind, help, samples) in METRICS {
        let _ = writeln!(out, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
        for server in servers {
            samples(server, &escaped(&server.name), &mut out);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_its_samples() {
        let server = |name: &str, is_up| BackendServer {
            name: name.to_owned(),
            is_up,
            answer_seconds: 0.25,
            answered: 7,
            failed: 1,
            conflicts: 3,
        };
        let text = text(&[server("a\"b", true), server("c", false)]);
        for line in [
            "# TYPE hither_endpoint_up gauge\n",
            "hither_endpoint_up{endpoint=\"a\\\"b\"} 1\n",
            "hither_endpoint_up{endpoint=\"c\"} 0\n",
            "hither_endpoint_answer_seconds{endpoint=\"c\"} 0.25\n",
            "hither_endpoint_questions_total{endpoint=\"c\",outcome=\"failed\"} 1\n",
            "hither_endpoint_conflicts_total{endpoint=\"c\"} 3\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert_eq!(super::text(&[]), "");
    }
}

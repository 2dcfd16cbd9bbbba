//! The command `hither-wan`: arguments and output.

use crate::control::{ControlRequest, ask};
use crate::error::local;
use crate::lifecycle::{self, LinkSpec};
use crate::namespace::{self, Side};
use crate::registry::LinkRecord;
use crate::{forwarder, validate};
use clap::{Args, Parser, Subcommand, ValueEnum};
use hither_core::{ErrorKind, Result};
use hither_netem::link::{Link, parse_bytes, parse_loss, parse_rate, parse_time};
use std::error::Error as _;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// An emulated WAN between two network namespaces: real kernel TCP at both ends, packets delayed,
/// limited, lost and counted in between. Needs root and Linux.
#[derive(Debug, Parser)]
#[command(name = "hither-wan", version, after_help = EXAMPLE)]
struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

const EXAMPLE: &str = "Example:
  hither-wan up far --rtt 240ms --rate 100Mbit --congestion cubic
  hither-wan exec far server -- iperf3 -s -D -1
  hither-wan exec far client -- iperf3 -c 10.77.1.2 -R
  hither-wan stats far
  hither-wan down far";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Bring a link up and print its addresses.
    Up(Up),
    /// Run a command at one end of a link; its exit code is the command's.
    Exec {
        /// Name of the link.
        name: String,
        /// End to run at.
        #[arg(value_enum)]
        side: SideName,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Print counters of a link: packets, bytes, drops, connections, turns, round trips.
    Stats {
        /// Name of the link.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Reset the counters after printing.
        #[arg(long)]
        reset: bool,
        /// Count only connections to this port of the server.
        #[arg(long)]
        port: Option<u16>,
    },
    /// Take a link down, with every program that still runs in its namespaces; succeeds if there is
    /// none.
    Down {
        /// Name of the link.
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// Take all links down.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// List the links.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure the emulator itself with ping and iperf3; fails outside its tolerances.
    Validate {
        /// Measure for a shorter time.
        #[arg(long)]
        quick: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Carry the packets of a link; started by `up`.
    #[command(hide = true)]
    Forward {
        /// Name of the link.
        name: String,
    },
}

#[derive(Debug, Args)]
struct Up {
    /// Name of the link: letters, digits, dashes, underscores.
    name: String,
    /// One of the talk's links, A to G; the other options change it.
    #[arg(long, value_parser = |text: &str| Link::named(text).ok_or("expected a letter from A to G"))]
    link: Option<Link>,
    /// Round-trip time, such as 240ms [default: 0].
    #[arg(long, value_parser = parse_time)]
    rtt: Option<Duration>,
    /// Rate of each direction, such as 100Mbit, or unlimited [default: unlimited].
    #[arg(long, value_parser = |text: &str| parse_rate(text).map(Rate))]
    rate: Option<Rate>,
    /// Rate of each connection, such as 50Mbit, or unlimited [default: unlimited].
    #[arg(long, value_parser = |text: &str| parse_rate(text).map(Rate))]
    rate_each: Option<Rate>,
    /// Probability of loss in each direction, such as 0.01% [default: 0].
    #[arg(long, value_parser = parse_loss)]
    loss: Option<f64>,
    /// Bytes that wait for the rate before the newest packet is dropped [default: a bandwidth-delay
    /// product, at least 64KiB].
    #[arg(long, value_parser = parse_bytes)]
    queue: Option<u64>,
    /// Seed of the losses [default: 0].
    #[arg(long)]
    seed: Option<u64>,
    /// Congestion control of both ends: cubic, bbr, reno.
    #[arg(long, default_value = "cubic")]
    congestion: String,
    /// Pass runs of up to 64 KB uncut [default: on without rate and loss].
    #[arg(long, value_enum, default_value_t = Switch::Auto)]
    offload: Switch,
    /// Take the link down when this process ends.
    #[arg(long, value_name = "PID")]
    owner: Option<i32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A parsed rate; its own type because clap treats an `Option` as an optional argument.
#[derive(Debug, Clone, Copy)]
struct Rate(Option<u64>);

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Switch {
    Auto,
    On,
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SideName {
    Client,
    Server,
}

impl Up {
    fn wanted(&self) -> LinkSpec {
        let start = self.link.unwrap_or_default();
        let link = Link {
            rtt: self.rtt.unwrap_or(start.rtt),
            bandwidth: self.rate.map_or(start.bandwidth, |rate| rate.0),
            each: self.rate_each.map_or(start.each, |rate| rate.0),
            loss: self.loss.unwrap_or(start.loss),
            queue: self.queue.or(start.queue),
            seed: self.seed.unwrap_or(start.seed),
        };
        let offload = match self.offload {
            Switch::Auto => None,
            Switch::On => Some(true),
            Switch::Off => Some(false),
        };
        LinkSpec {
            name: self.name.clone(),
            link,
            congestion: self.congestion.clone(),
            offload,
            owner: self.owner,
        }
    }
}

/// Runs the command. Exit codes: 0, 1 for an error, 2 for wrong arguments; `exec`: that of its
/// command, 127 if there is no such program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command, &mut std::io::stdout().lock()) {
        Ok(code) => code,
        Err(error) => {
            let mut text = format!("hither-wan: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                text.push_str(&format!(": {cause}"));
                source = cause.source();
            }
            let _ = writeln!(std::io::stderr(), "{text}");
            match error.kind() {
                ErrorKind::Invalid => ExitCode::from(2),
                ErrorKind::NotFound => ExitCode::from(127),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(command: Verb, out: &mut impl Write) -> Result<ExitCode> {
    let text = match command {
        Verb::Up(up) => {
            let saved = lifecycle::up(&this_program()?, &up.wanted())?;
            if up.json { json(&described(&saved))? } else { told(&saved) }
        }
        Verb::Exec { name, side, command } => {
            let side = match side {
                SideName::Client => Side::Client,
                SideName::Server => Side::Server,
            };
            return Err(lifecycle::exec(&name, side, &command));
        }
        Verb::Stats { name, json: as_json, reset, port } => {
            crate::registry::check_name(&name)?;
            let report = ask(&name, ControlRequest::Stats { port, reset })?
                .ok_or_else(|| local(format!("link {name} gave no counts")))?;
            if as_json { json(&report)? } else { report.to_string() }
        }
        Verb::Down { name: Some(name), .. } => {
            lifecycle::down(&name)?;
            String::new()
        }
        Verb::Down { name: None, .. } => {
            lifecycle::down_all()?;
            String::new()
        }
        Verb::List { json: as_json } => {
            let listed = lifecycle::list()?;
            if as_json {
                json(&listed)?
            } else {
                listed
                    .iter()
                    .map(|it| {
                        let state = if it.alive { "" } else { " (dead: take it down)" };
                        let what = it.saved.as_ref().map_or_else(|| it.name.clone(), told);
                        format!("{}{state}\n", what.trim_end())
                    })
                    .collect()
            }
        }
        Verb::Validate { quick, json: as_json } => {
            let results = validate::run(&this_program()?, quick, as_json, out)?;
            if as_json {
                print(out, &json(&results)?)?;
            }
            let good = results.iter().all(validate::Measured::passed);
            return Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Verb::Forward { name } => {
            forwarder::run(&name)?;
            String::new()
        }
    };
    print(out, &text)?;
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, text: &str) -> Result<()> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| local("cannot write to standard output").with_source(error))
}

fn this_program() -> Result<std::path::PathBuf> {
    std::env::current_exe()
        .map_err(|error| local("cannot find this program's file").with_source(error))
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map(|text| text + "\n")
        .map_err(|error| local("cannot write json").with_source(error))
}

fn described(saved: &LinkRecord) -> serde_json::Value {
    serde_json::json!({
        "name": saved.name,
        "rtt": saved.link.rtt.as_secs_f64(),
        "rate": saved.link.bandwidth,
        "rate_each": saved.link.each,
        "loss": saved.link.loss,
        "queue": saved.link.queue_bytes(),
        "seed": saved.link.seed,
        "congestion": saved.congestion,
        "offload": saved.offload,
        "client": {
            "address": saved.client(),
            "namespace": namespace::of(&saved.name, Side::Client),
        },
        "server": {
            "address": saved.server(),
            "namespace": namespace::of(&saved.name, Side::Server),
        },
    })
}

fn told(saved: &LinkRecord) -> String {
    format!(
        "{}: {}, {}; client {} ({}), server {} ({})\n",
        saved.name,
        saved.link,
        saved.congestion,
        saved.client(),
        namespace::of(&saved.name, Side::Client),
        saved.server(),
        namespace::of(&saved.name, Side::Server),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn letter_is_a_start_for_the_other_options() {
        let line = ["hither-wan", "up", "x", "--link", "F", "--rtt", "10ms", "--loss", "1%"];
        let Verb::Up(up) = Arguments::parse_from(line).command else { panic!("up") };
        let link = up.wanted().link;
        assert_eq!(link, Link { rtt: Duration::from_millis(10), loss: 0.01, ..Link::F });
        let line = ["hither-wan", "up", "x", "--link", "F", "--rate", "unlimited"];
        let Verb::Up(up) = Arguments::parse_from(line).command else { panic!("up") };
        assert_eq!(up.wanted().link.bandwidth, None);
    }
}

//! The command `hither-proxy`: arguments and output.

use super::{Fault, TcpProxy, TcpProxyConfig};
use clap::Parser;
use hither_core::{Error, ErrorKind, Result};
use hither_netem::link::{Link, parse_bytes, parse_rate, parse_time};
use std::error::Error as _;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// A TCP proxy that delays and limits like a wide-area link, without privileges. It emulates
/// neither TCP slow start nor losses, because both sides talk over the loopback. Use hither-wan for
/// real packets.
#[derive(Debug, Parser)]
#[command(name = "hither-proxy", version, after_help = EXAMPLE)]
struct Arguments {
    /// Address to listen on; port 0 takes a free one and prints it.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Host and port of the server.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// Round-trip time, such as 240ms.
    #[arg(long, value_parser = parse_time, default_value = "0")]
    rtt: Duration,
    /// Rate of each direction, shared by all connections, such as 100Mbit, or unlimited.
    #[arg(long, value_parser = |text: &str| parse_rate(text).map(Rate), default_value = "unlimited")]
    rate: Rate,
    /// Bytes that wait for the rate before reading stops [default: a bandwidth-delay product, at
    /// least 64KiB].
    #[arg(long, value_parser = parse_bytes)]
    queue: Option<u64>,
    /// Close each connection after this many bytes from the server.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, group = "fault")]
    cut_after: Option<u64>,
    /// Reset each connection after this many bytes from the server.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, group = "fault")]
    reset_after: Option<u64>,
    /// Stall each connection after this many bytes from the server.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, group = "fault")]
    stall_after: Option<u64>,
    /// Apply the fault to the first connections only, this many.
    #[arg(long, value_name = "N", requires = "fault")]
    faulty: Option<u64>,
    /// Flip each bit, in both directions, with this probability, such as 1e-7.
    #[arg(long, value_name = "CHANCE", value_parser = parse_chance, default_value = "0")]
    flip: f64,
    /// Seed of the flipped bits.
    #[arg(long, default_value = "0")]
    seed: u64,
    /// Print the counters at the end as JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "Example:
  hither-proxy --to 127.0.0.1:8080 --rtt 240ms --rate 100Mbit
It prints where it listens, runs until SIGINT or SIGTERM, then prints connections, bytes and turns.";

/// A parsed rate; its own type because clap treats an `Option` as an optional argument.
#[derive(Debug, Clone, Copy)]
struct Rate(Option<u64>);

/// A probability, from 0 to below 1.
fn parse_chance(text: &str) -> std::result::Result<f64, String> {
    let chance = text.parse::<f64>().ok().filter(|chance| (0.0..1.0).contains(chance));
    chance.ok_or_else(|| format!("{text:?} is no chance: expected a number from 0 to below 1"))
}

/// Runs the command until a signal. Exit codes: 0, 1 for an error, 2 for wrong arguments.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = runtime
        .map_err(|error| local("cannot start").with_source(error))
        .and_then(|runtime| runtime.block_on(run(&arguments)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
            let _ = writeln!(std::io::stderr(), "hither-proxy: {error}{cause}");
            ExitCode::FAILURE
        }
    }
}

fn local(message: &str) -> Error {
    Error::new(ErrorKind::Local, message)
}

async fn run(arguments: &Arguments) -> Result<()> {
    let link = Link { queue: arguments.queue, ..Link::new(arguments.rtt, arguments.rate.0) };
    // The parser allows at most one fault.
    let fault = match (arguments.cut_after, arguments.reset_after, arguments.stall_after) {
        (Some(after), ..) => Some(Fault::Cut { after }),
        (_, Some(after), _) => Some(Fault::Reset { after }),
        (.., Some(after)) => Some(Fault::Stall { after }),
        _ => None,
    };
    let Arguments { flip: flips, seed, faulty: faulty_connections, .. } = *arguments;
    let config = TcpProxyConfig { link, fault, faulty_connections, flips, seed };
    let proxy = TcpProxy::start(arguments.listen, &arguments.to, config).await?;
    // Before the address is printed, so that its reader may send a signal immediately.
    let ended = ended()?;
    say(&format!(
        "listening on {} for {}: {link}; a proxy, no TCP slow start\n",
        proxy.address(),
        arguments.to
    ))?;
    ended.await;
    let counts = proxy.counts();
    if arguments.json {
        let text = serde_json::to_string(&counts)
            .map_err(|error| local("cannot write json").with_source(error))?;
        say(&(text + "\n"))
    } else {
        say(&format!("{counts}; through a proxy, no TCP slow start\n"))
    }
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| local("cannot write to standard output").with_source(error))
}

/// Starts to watch for SIGINT and SIGTERM; the future is ready once one has arrived.
fn ended() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let trouble = |error| local("cannot listen for signals").with_source(error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(trouble)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(trouble)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}

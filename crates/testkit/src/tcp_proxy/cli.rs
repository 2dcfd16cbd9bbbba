//! The command `hither-proxy`: arguments and output.

use super::{TcpProxy, TcpProxyConfig};
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
}

const EXAMPLE: &str = "Example:
  hither-proxy --to 127.0.0.1:8080 --rtt 240ms --rate 100Mbit
It prints where it listens, runs until SIGINT or SIGTERM, then prints connections, bytes and turns.";

/// A parsed rate; its own type because clap treats an `Option` as an optional argument.
#[derive(Debug, Clone, Copy)]
struct Rate(Option<u64>);

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
    let config = TcpProxyConfig { link, ..TcpProxyConfig::default() };
    let proxy = TcpProxy::start(arguments.listen, &arguments.to, config).await?;
    // Before the address is printed, so that its reader may send a signal immediately.
    let ended = ended()?;
    say(&format!(
        "listening on {} for {}: {link}; a proxy, no TCP slow start\n",
        proxy.address(),
        arguments.to
    ))?;
    ended.await;
    say(&format!("{}; through a proxy, no TCP slow start\n", proxy.counts()))
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
    let cannot_listen = |error| local("cannot listen for signals").with_source(error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot_listen)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot_listen)?;
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

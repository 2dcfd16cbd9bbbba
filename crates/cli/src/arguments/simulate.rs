//! Arguments of `hither simulate`.

use clap::Args;
use hither::byte_size;
use hither_netem::link::{parse_rate, parse_time};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `hither simulate`. Lists make a grid.
#[derive(Debug, Clone, Args)]
pub(crate) struct Simulate {
    /// Simulate these round-trip times [default: 0.2ms,20ms,100ms].
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = parse_time)]
    pub(crate) latency: Vec<Duration>,
    /// Simulate these rates, or unlimited [default: 1Gbit].
    #[arg(long, value_name = "RATES", value_delimiter = ',', value_parser = parse_rate)]
    pub(crate) bandwidth: Vec<Option<u64>>,
    /// Set the memory of the cache [default: 67108864].
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = byte_size)]
    pub(crate) cache: Vec<u64>,
    /// Set the block size, or learned; 0 for none [default: learned].
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = block)]
    pub(crate) block: Vec<Option<u64>>,
    /// Limit the bytes fetched ahead; 0 for none [default: auto, half of the cache].
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = read_ahead)]
    pub(crate) read_ahead: Vec<Option<u64>>,
    /// Limit the connections [default: 64].
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = connections)]
    pub(crate) connections: Vec<usize>,
    /// Set the server's time per request [default: 0].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) server_time: Option<Duration>,
    /// Take what is not set from the measured path to this file.
    #[arg(long, value_name = "URL")]
    pub(crate) like: Option<String>,
    /// Set the size of the files, for copies [default: as far as they were read].
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    pub(crate) file_size: Option<u64>,
    /// Write a page with heat maps.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The trace.
    #[arg(value_name = "TRACE")]
    pub(crate) file: PathBuf,
}

fn block(text: &str) -> Result<Option<u64>, String> {
    or_default(text, "learned")
}

fn read_ahead(text: &str) -> Result<Option<u64>, String> {
    or_default(text, "auto")
}

fn or_default(text: &str, default: &str) -> Result<Option<u64>, String> {
    if text == default {
        return Ok(None);
    }
    byte_size(text).map(Some).map_err(|error| format!("{error}, or {default}"))
}

fn connections(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| "expected a number".to_owned())?;
    (1..=1024).contains(&number).then_some(number).ok_or_else(|| "expected 1 to 1024".to_owned())
}

//! Writes a synthetic workload as a trace, for `hither trace replay`.

use crate::ProgramResult;
use clap::{Parser, ValueEnum};
use hither_testkit::workload::{self, Workload};
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::Duration;

/// Writes the trace of a synthetic workload whose reads never wait. Prints the size of the file it
/// reads in bytes.
#[derive(Debug, Parser)]
#[command(name = "hither-bench workload")]
struct Arguments {
    /// Access pattern.
    #[arg(value_enum)]
    pattern: Pattern,
    /// Write the trace to this file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Name of the read file in the trace.
    #[arg(long, default_value = "workload")]
    name: String,
    /// Seed of the random patterns.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of reads; `babar` has its own.
    #[arg(long, default_value_t = 10_000)]
    reads: u64,
    /// Microseconds between reads; `babar` has its own.
    #[arg(long, default_value_t = 0)]
    think_micros: u64,
    /// Keep only the first READS reads.
    #[arg(long, value_name = "READS")]
    first: Option<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Pattern {
    /// 100,000 reads in a file of 1 GB, most of them close to the one before: the BaBar job of
    /// 2006.
    Babar,
    /// Reads of 64 KiB from beginning to end.
    Sequential,
    /// Reads of 4 KiB by eight readers in turn.
    Interleaved,
    /// Reads of 1 to 8 KiB at random offsets in a file of 256 MiB.
    Random,
}

impl Arguments {
    fn workload(&self) -> Workload {
        let think = Duration::from_micros(self.think_micros);
        let mut workload = match self.pattern {
            Pattern::Babar => workload::babar(self.seed),
            Pattern::Sequential => workload::interleaved(1, self.reads, 64 << 10, think),
            Pattern::Interleaved => {
                workload::interleaved(8, self.reads.div_ceil(8), 4 << 10, think)
            }
            Pattern::Random => {
                let reads = usize::try_from(self.reads).unwrap_or(usize::MAX);
                workload::random(256 << 20, reads, 1 << 10..8 << 10, think, self.seed)
            }
        };
        workload.steps.truncate(self.first.unwrap_or(usize::MAX));
        workload
    }
}

pub(crate) fn run(words: Vec<String>) -> ProgramResult {
    let arguments = Arguments::parse_from(std::iter::once("workload".to_owned()).chain(words));
    let workload = arguments.workload();
    let output = &arguments.output;
    File::create(output)
        .and_then(|file| workload.write_trace(&arguments.name, BufWriter::new(file)))
        .map_err(|error| format!("cannot write {}: {error}", output.display()))?;
    println!("{}", workload.size);
    Ok(())
}

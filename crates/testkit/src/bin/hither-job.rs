//! Writes a job of [`hither_testkit::jobs`] as a trace, for `hither trace replay`.

use clap::{Parser, ValueEnum};
use hither_testkit::workload::{self, Workload};
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Writes the trace of a program that reads in a known way and never waits; prints the size of its file in bytes.
#[derive(Debug, Parser)]
#[command(name = "hither-job")]
struct Arguments {
    /// Which program.
    #[arg(value_enum)]
    job: Which,
    /// Where to write the trace.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What the file is called in the trace.
    #[arg(long, default_value = "job")]
    name: String,
    /// Another seed gives another job of the same kind.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of reads of the kinds that have no number of their own.
    #[arg(long, default_value_t = 10_000)]
    reads: u64,
    /// Microseconds between reads, likewise.
    #[arg(long, default_value_t = 0)]
    think_micros: u64,
    /// Only the first so many reads.
    #[arg(long, value_name = "READS")]
    first: Option<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Which {
    /// 100,000 reads in a file of 1 GB, near each other but for one in twenty, as the paper of 2006 counted them.
    Babar,
    /// Reads of 64 KiB, one after the other.
    Sequential,
    /// Reads of 4 KiB by eight readers that take turns.
    Interleaved,
    /// Reads of 1 to 8 KiB anywhere in a file of 256 MiB.
    Random,
}

impl Arguments {
    fn job(&self) -> Workload {
        let think = Duration::from_micros(self.think_micros);
        let mut job = match self.job {
            Which::Babar => workload::babar(self.seed),
            Which::Sequential => workload::interleaved(1, self.reads, 64 << 10, think),
            Which::Interleaved => workload::interleaved(8, self.reads.div_ceil(8), 4 << 10, think),
            Which::Random => {
                let reads = usize::try_from(self.reads).unwrap_or(usize::MAX);
                workload::random(256 << 20, reads, 1 << 10..8 << 10, think, self.seed)
            }
        };
        job.steps.truncate(self.first.unwrap_or(usize::MAX));
        job
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for benches")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let job = arguments.job();
    let written = File::create(&arguments.output)
        .and_then(|file| job.write_trace(&arguments.name, BufWriter::new(file)));
    match written {
        Ok(()) => {
            println!("{}", job.size);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("hither-job: cannot write {}: {error}", arguments.output.display());
            ExitCode::FAILURE
        }
    }
}

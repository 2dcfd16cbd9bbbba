//! Workloads as traces, for programs that replay them.

use super::Workload;
use hither_trace::{CacheStatus, ReadEvent, ReadTimes, TraceWriter};
use std::io::{self, Write};
use std::time::Duration;

impl Workload {
    /// Writes the workload as the trace of a program that never waits, with `name` as its file.
    ///
    /// # Errors
    ///
    /// The errors of `output`.
    pub fn write_trace(&self, name: &str, output: impl Write) -> io::Result<()> {
        let mut writer = TraceWriter::new(output)?;
        let file = writer.number(name)?;
        let mut at = Duration::ZERO;
        for step in &self.steps {
            at += step.think;
            writer.record(&ReadEvent {
                file,
                thread: 0,
                ranges: &[step.range()],
                times: ReadTimes::at_once(at),
                found: CacheStatus::Hit,
                absent_bytes: 0,
            })?;
        }
        writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::babar;
    use hither_trace::{Statistics, SubmissionOrder, TraceReader};

    #[test]
    fn the_trace_of_a_job_is_the_job() {
        let job = babar(1);
        let mut bytes = Vec::new();
        job.write_trace("babar", &mut bytes).unwrap();
        let reads: Vec<_> = TraceReader::new(&bytes[..]).unwrap().map(Result::unwrap).collect();
        assert!(
            reads
                .iter()
                .map(|read| read.ranges[0].clone())
                .eq(job.steps.iter().map(|step| step.range()))
        );
        let mut reads = SubmissionOrder::new(reads.into_iter().map(Ok));
        let of = Statistics::of(&mut reads, |_| vec!["babar".to_owned()]).unwrap();
        assert_eq!((of.all.reads, of.all.bytes), (job.steps.len() as u64, job.bytes()));
        let think = job.think();
        let first = job.steps[0].think;
        assert!((of.seconds - (think - first).as_secs_f64()).abs() < 1e-3);
        // The value of the paper.
        assert!((0.94..0.96).contains(&of.all.displacements.near_share()));
    }
}

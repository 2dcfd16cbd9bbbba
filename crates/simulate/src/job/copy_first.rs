//! The method that copies all files of a job, one after the other, before the job reads them
//! locally.

use super::{Job, JobResult, JobSettings};
use crate::source::SimulatedSource;
use hither_core::{Clock, Result};
use hither_read::{Reader, ReaderConfig};
use hither_tune::ReadTrial;

/// Copies the files; the job then takes only its time of work.
pub(super) async fn copy_first(
    job: &Job,
    host: &SimulatedSource,
    settings: &JobSettings,
) -> Result<JobResult> {
    let mut bytes = 0;
    for size in job.files.values().copied().filter(|size| *size > 0) {
        let source = host.beside(size);
        let mut reader =
            Reader::new(&source, None, ReaderConfig::default().with_trial(ReadTrial::begin));
        reader.push(&[0..size.min(FIRST_BYTES)], settings.connections);
        drain(&mut reader).await?;
        // The first response has measured the path, from which the number of useful connections
        // follows.
        if size > FIRST_BYTES {
            reader.push(&[FIRST_BYTES..size], settings.connections);
            drain(&mut reader).await?;
        }
        bytes += size;
    }
    let (requests, connections_opened) = host.counts();
    Ok(JobResult {
        seconds: (host.now() + job.work()).as_secs_f64(),
        requests,
        connections_opened,
        bytes_fetched: bytes,
        bytes_used: bytes,
        ..JobResult::default()
    })
}

/// Bytes of the first request.
const FIRST_BYTES: u64 = hither_core::source::link::INITIAL_REQUEST_BYTES;

async fn drain(reader: &mut Reader<'_>) -> Result<()> {
    while let Some(part) = reader.next().await {
        reader.release(part?.bytes.len() as u64);
    }
    Ok(())
}

//! The threads of a job, reading through the cache.

use super::{Job, JobResult, JobSettings};
use crate::source::{SimulatedSource, WaitCauses};
use crate::virtual_time::VirtualTime;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hither_core::{Clock, Result, Source, range};
use hither_read::cache::file::Spawn;
use hither_read::{
    Cache, CacheConfig, CacheKey, CachedFile, ReadAhead, ReadAheadConfig, ReaderConfig,
};
use hither_trace::ThreadScript;
use hither_tune::ReadTrial;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a read into the buffer that a thread reuses.
const MAX_BUFFER_BYTES: usize = 64 << 20;

/// Runs all threads of the job; returns when the last one ends.
pub(super) async fn play(
    job: &Job,
    time: &VirtualTime,
    host: &SimulatedSource,
    settings: &JobSettings,
    prefetches: bool,
) -> Result<JobResult> {
    let mut memory = CacheConfig::with_budget(settings.cache_bytes);
    if let Some(bytes) = settings.read_ahead_bytes {
        memory.ahead_bytes = bytes;
    }
    let cache = Arc::new(Cache::new(memory));
    let spawner = time.clone();
    let spawn: Spawn = Arc::new(move |task| spawner.spawn(task));
    let open = |(number, size): (&u32, &u64)| {
        let key = CacheKey { name: number.to_string(), identity: String::new() };
        let source: Arc<dyn Source> = Arc::new(host.beside(*size));
        let config = ReaderConfig::default().with_trial(ReadTrial::begin);
        let file = CachedFile::new(source, Arc::clone(&cache), key, config, Arc::clone(&spawn));
        if prefetches {
            file.set_prefetcher(Box::new(ReadAhead::new(read_ahead(settings))));
        }
        (*number, file)
    };
    let files: BTreeMap<u32, CachedFile> = job.files.iter().map(open).collect();
    let threads = job.script.threads.values();
    let player = || Player { clock: time, host, files: &files, waits: Waits::default() };
    let mut players: FuturesUnordered<_> = threads.map(|it| player().play(it)).collect();
    let mut all = Waits::default();
    while let Some(waits) = players.next().await {
        let waits = waits?;
        all.reads += waits.reads;
        all.causes += waits.causes;
    }
    let seconds = time.now().as_secs_f64();
    let totals = cache.totals();
    let (requests, connections_opened) = host.counts();
    Ok(JobResult {
        seconds,
        waited_seconds: all.causes.total().as_secs_f64(),
        waits: all.causes,
        reads_waited: all.reads,
        requests,
        connections_opened,
        bytes_fetched: totals.bytes_fetched,
        bytes_used: totals.bytes_used,
    })
}

fn read_ahead(settings: &JobSettings) -> ReadAheadConfig {
    let mut config = ReadAheadConfig::default();
    if let Some(bytes) = settings.block_bytes {
        (config.block_bytes, config.learn_blocks) = (bytes, false);
    }
    config
}

/// Waits of a thread.
#[derive(Debug, Default)]
struct Waits {
    reads: u64,
    causes: WaitCauses,
}

/// A thread that plays a script.
struct Player<'a> {
    clock: &'a VirtualTime,
    host: &'a SimulatedSource,
    files: &'a BTreeMap<u32, CachedFile>,
    waits: Waits,
}

impl Player<'_> {
    async fn play(mut self, script: &ThreadScript) -> Result<Waits> {
        let mut buffer = Vec::new();
        for (step, ranges) in script.steps() {
            if step.pause > Duration::ZERO {
                self.clock.sleep(step.pause).await;
            }
            let Some(file) = self.files.get(&step.file) else { continue };
            let began = self.clock.now();
            read(file, ranges, &mut buffer).await?;
            let ended = self.clock.now();
            if ended > began {
                self.waits.reads += 1;
                self.waits.causes += self.host.causes(began, ended);
            }
        }
        Ok(self.waits)
    }
}

async fn read(file: &CachedFile, ranges: &[Range<u64>], buffer: &mut Vec<u8>) -> Result<()> {
    let length = usize::try_from(range::total_bytes(ranges)).unwrap_or(usize::MAX);
    let (&[Range { start, .. }], ..=MAX_BUFFER_BYTES) = (ranges, length) else {
        return file.read_ranges(ranges).await.map(drop);
    };
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    file.read_at(start, buffer.get_mut(..length).unwrap_or_default()).await.map(drop)
}

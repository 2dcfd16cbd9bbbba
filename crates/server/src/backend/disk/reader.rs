//! A file on the disk that is open for reading.

use crate::backend::disk::checksums::ChecksumCache;
use crate::backend::disk::metadata::DiskMetadata;
use crate::backend::{BackendFuture, ChecksumMode, EntryMetadata, FileRanges, FileReader};
use hither_checksum::{Algorithm, Checksum};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// A file on the disk that is open for reading.
#[derive(Debug)]
pub(crate) struct DiskReader {
    file: Arc<File>,
    disk: DiskMetadata,
    metadata: EntryMetadata,
    checksums: Arc<ChecksumCache>,
}

impl DiskReader {
    pub(crate) fn new(file: File, disk: DiskMetadata, checksums: &Arc<ChecksumCache>) -> Self {
        let metadata = disk.entry(SystemTime::now());
        Self { file: Arc::new(file), disk, metadata, checksums: Arc::clone(checksums) }
    }
}

impl FileReader for DiskReader {
    fn metadata(&self) -> &EntryMetadata {
        &self.metadata
    }

    fn ranges(&self, _: &[Range<u64>]) -> FileRanges {
        FileRanges::Local(Arc::clone(&self.file))
    }

    fn checksum(
        &self,
        algorithm: Algorithm,
        mode: ChecksumMode,
    ) -> BackendFuture<'_, Option<Checksum>> {
        Box::pin(async move {
            Ok(self.checksums.checksum(&self.file, &self.disk, algorithm, mode).await)
        })
    }

    fn is_current(&self) -> BackendFuture<'_, bool> {
        let now = DiskMetadata::of(&self.file);
        let is_current = now.is_ok_and(|now| now.key() == self.disk.key());
        Box::pin(std::future::ready(Ok(is_current)))
    }
}

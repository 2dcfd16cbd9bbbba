//! Copies, syncs and checks: their options from Python, and their results as dictionaries.

pub(crate) mod names;

use hither::{
    CheckOptions, CheckSummary, CompareBy, CopyOptions, CopySummary, Error, ErrorKind, Filter,
    FilterOptions, OverwritePolicy, SyncOptions, TreeDifference, Verify,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// Options that the package passes as a mapping with these keys; `None` means the default.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PyCopyOptions {
    recursive: Option<bool>,
    existing: Option<String>,
    checksum: Option<String>,
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
    filters: Option<Vec<String>>,
    files: Option<Vec<String>>,
    bandwidth: Option<String>,
    transfers: Option<usize>,
    retry: Option<u32>,
    compare: Option<String>,
    delete: Option<bool>,
    max_delete: Option<usize>,
    dry_run: Option<bool>,
    one_way: Option<bool>,
}

impl PyCopyOptions {
    /// The options of a copy by `client`.
    pub(crate) fn copy(&self, client: &hither::Client) -> Result<CopyOptions, Error> {
        let mut options = client.copy_options();
        options.recursive = self.recursive.unwrap_or_default();
        options.existing = match self.existing.as_deref() {
            None | Some("replace") => OverwritePolicy::Replace,
            Some("keep") => OverwritePolicy::Keep,
            Some("update") => OverwritePolicy::Update,
            Some("refuse") => OverwritePolicy::Refuse,
            Some(other) => {
                return Err(unknown("existing", other, "replace, keep, update or refuse"));
            }
        };
        options.verify = match self.checksum.as_deref() {
            None => Verify::Automatic,
            Some("none") => Verify::Nothing,
            Some(text) if text.contains(':') => Verify::Value(text.parse()?),
            Some(text) => Verify::Algorithm(text.parse()?),
        };
        options.filter = Arc::new(Filter::new(&FilterOptions {
            include: self.include.clone().unwrap_or_default(),
            exclude: self.exclude.clone().unwrap_or_default(),
            rules: self.filters.clone().unwrap_or_default(),
            files: self.files.clone(),
        })?);
        let timetable = self.bandwidth.as_deref().map(str::parse).transpose();
        let timetable = timetable.map_err(|why: String| Error::new(ErrorKind::Invalid, why))?;
        options.bandwidth = timetable.map(hither::bandwidth_limiter);
        options.transfers = self.transfers;
        options.attempts = self.retry.unwrap_or(options.attempts);
        Ok(options)
    }

    pub(crate) fn sync(&self, client: &hither::Client) -> Result<SyncOptions, Error> {
        let mut options = SyncOptions::default();
        options.by = self.by()?;
        options.delete = self.delete.unwrap_or_default();
        options.max_delete = self.max_delete.unwrap_or(options.max_delete);
        options.dry_run = self.dry_run.unwrap_or_default();
        options.copy = self.copy(client)?;
        Ok(options)
    }

    pub(crate) fn check(&self, client: &hither::Client) -> Result<CheckOptions, Error> {
        let one_way = self.one_way.unwrap_or_default();
        Ok(CheckOptions { by: self.by()?, one_way, copy: self.copy(client)? })
    }

    fn by(&self) -> Result<CompareBy, Error> {
        match self.compare.as_deref() {
            None | Some("time") => Ok(CompareBy::Time),
            Some("size") => Ok(CompareBy::Size),
            Some("checksum") => Ok(CompareBy::Checksum),
            Some(other) => Err(unknown("compare", other, "time, size or checksum")),
        }
    }
}

fn unknown(option: &str, value: &str, expected: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("{option} is {value:?}, expected {expected}"))
}

/// Progress of a copy, sync or check, which may be read at any time.
#[pyclass(frozen, module = "hither._core")]
#[derive(Debug, Default)]
pub(crate) struct CopyProgress(pub(crate) Arc<hither::CopyProgress>);

#[pymethods]
impl CopyProgress {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Files found and done, bytes found and done, bytes that arrived.
    fn figures(&self) -> (u64, u64, u64, u64, u64) {
        let it = self.0.figures();
        (it.files_found, it.files_done, it.bytes_found, it.bytes_done, it.bytes_arrived)
    }
}

/// Returns the summary of a copy or sync, or its error if a file failed.
pub(crate) fn copied(summary: CopySummary) -> Result<CopySummary, Error> {
    summary.error().map_or(Ok(summary), Err)
}

pub(crate) fn summary_object(summary: &CopySummary, py: Python<'_>) -> PyResult<Py<PyAny>> {
    let object = PyDict::new(py);
    object.set_item("files", summary.files)?;
    object.set_item("bytes", summary.bytes)?;
    object.set_item("files_skipped", summary.files_skipped)?;
    object.set_item("directories", summary.directories)?;
    object.set_item("files_deleted", summary.files_deleted)?;
    object.set_item("directories_deleted", summary.directories_deleted)?;
    object.set_item("bytes_arrived", summary.bytes_arrived)?;
    object.set_item("bytes_resumed", summary.bytes_resumed)?;
    let checksums = PyDict::new(py);
    for checked in &summary.checksums {
        checksums.set_item(&checked.target, checked.checksum.to_string())?;
    }
    object.set_item("checksums", checksums)?;
    object.set_item("notices", &summary.notices)?;
    Ok(object.into_any().unbind())
}

/// Returns the summary of a check with its differences, or its error if a name failed.
pub(crate) fn checked(
    summary: CheckSummary,
    differences: Vec<TreeDifference>,
) -> Result<(CheckSummary, Vec<TreeDifference>), Error> {
    match summary.failures.first() {
        Some(failure) => Err(failure.error.clone()),
        None => Ok((summary, differences)),
    }
}

pub(crate) fn check_object(
    (summary, differences): &(CheckSummary, Vec<TreeDifference>),
    py: Python<'_>,
) -> PyResult<Py<PyAny>> {
    let object = PyDict::new(py);
    object.set_item("equal", summary.equal)?;
    object.set_item("without_times", summary.without_times)?;
    object.set_item("notices", &summary.notices)?;
    let mut differences: Vec<_> =
        differences.iter().map(|it| (it.path.as_str(), it.kind.name())).collect();
    differences.sort_unstable();
    object.set_item("differences", differences)?;
    Ok(object.into_any().unbind())
}

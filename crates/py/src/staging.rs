//! Requests that stage files from tape to disk.

use crate::error::invalid;
use crate::fork::ClientHandle;
use crate::job::Job;
use hither::{Error, ErrorKind, PerProcess, StagingRequest, StagingState};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// Requests to servers, which bring files from tape to disk.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct Staging(PerProcess<Requested>);

#[derive(Clone)]
struct Requested {
    client: Arc<ClientHandle>,
    requests: Arc<[StagingRequest]>,
    files: usize,
}

impl Staging {
    pub(crate) fn new(
        client: Arc<ClientHandle>,
        requests: Vec<StagingRequest>,
        files: usize,
    ) -> Self {
        Self(PerProcess::new(Requested { client, requests: requests.into(), files }))
    }

    fn requested(&self) -> PyResult<&Requested> {
        self.0.get().ok_or_else(|| invalid("the files were requested in another process"))
    }
}

#[pymethods]
impl Staging {
    /// The id of each request at its server, and the indices of its files.
    fn requests(&self) -> PyResult<Vec<(String, Vec<usize>)>> {
        let requests = self.requested()?.requests.iter();
        Ok(requests.map(|it| (it.request.clone(), it.urls.clone())).collect())
    }

    /// The state of each file: ``"waiting"``, ``"online"``, or ``"failed: "`` and the reason.
    fn progress(&self) -> PyResult<Job> {
        let Requested { client, requests, files } = self.requested()?.clone();
        let progress = async move {
            let mut states = vec![StagingState::Waiting; files];
            StagingRequest::poll(&requests, &mut states).await?;
            Ok(states)
        };
        Ok(Job::new(&client, progress, names))
    }

    /// Waits until all files are on disk or have failed; their states then.
    fn wait(&self, timeout: Option<f64>) -> PyResult<Job> {
        let Requested { client, requests, files } = self.requested()?.clone();
        let follow = async move {
            let mut states = vec![StagingState::Waiting; files];
            let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            StagingRequest::follow(&requests, &mut states, limit, |_| {}).await?;
            let left = states.iter().filter(|state| !state.is_final()).count();
            if left == 0 { Ok(states) } else { Err(late(left, states.len())) }
        };
        Ok(Job::new(&client, follow, names))
    }
}

fn late(left: usize, files: usize) -> Error {
    let what =
        format!("{left} of {files} files are not on disk yet (the servers go on: wait again)");
    Error::new(ErrorKind::Timeout, what)
}

fn names(states: Vec<StagingState>, py: Python<'_>) -> PyResult<Py<PyAny>> {
    let name = |state| match state {
        StagingState::Waiting | StagingState::Unlisted => "waiting".to_owned(),
        StagingState::Online => "online".to_owned(),
        StagingState::Failed(why) => format!("failed: {why}"),
    };
    let names: Vec<String> = states.into_iter().map(name).collect();
    Ok(names.into_pyobject(py)?.into_any().unbind())
}

//! The body of a response, which feeds the [record](crate::monitoring::request_record) of its
//! request.

use crate::connection::monitor::{MonitoredChunk, RequestProgress};
use crate::monitoring::request_record::RequestRecord;
use crate::response::body::ResponseBody;
use bytes::Buf;
use hyper::body::{Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;
use tracing::debug;

/// A body that feeds the record of its request, which is written when this is dropped.
#[derive(Debug)]
pub(crate) struct RecordedBody {
    body: ResponseBody,
    record: RequestRecord,
    /// The time at which the last chunk was returned; cleared when the next is requested.
    handed: Option<Instant>,
    progress: Arc<RequestProgress>,
}

impl RecordedBody {
    pub(crate) fn new(
        body: ResponseBody,
        mut record: RequestRecord,
        progress: Arc<RequestProgress>,
    ) -> Self {
        if hyper::body::Body::is_end_stream(&body) {
            record.complete();
        }
        progress.offered();
        Self { body, record, handed: None, progress }
    }
}

impl hyper::body::Body for RecordedBody {
    type Data = MonitoredChunk;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<MonitoredChunk>>>> {
        if let Some(handed) = self.handed.take() {
            self.record.waited(handed.elapsed());
        }
        let span = self.record.span().clone();
        let _inside = span.enter();
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.progress.polled(frame.is_ready());
        let frame = ready!(frame);
        match &frame {
            Some(Ok(frame)) => {
                self.record.sent(frame.data_ref().map_or(0, Buf::remaining));
                self.handed = Some(Instant::now());
            }
            Some(Err(error)) => {
                debug!(%error, "response failed");
                self.record.reason(&error.to_string());
            }
            None => self.record.complete(),
        }
        if self.body.is_end_stream() && !matches!(frame, Some(Err(_))) {
            self.record.complete();
        }
        let out = |chunk| MonitoredChunk::new(chunk, &self.progress);
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(out))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RecordedBody {
    fn drop(&mut self) {
        if let Some(handed) = self.handed.take() {
            self.record.waited(handed.elapsed());
        }
        self.record.disk(self.body.disk_time());
    }
}

//! The file, or its beginning, that is kept here because its server sends only the whole file.

use super::HttpSource;
use super::targets::HttpTarget;
use crate::http::delivery::Delivery;
use crate::http::spooled_download::{SpoolSpace, SpooledDownload};
use crate::pool::observation::{ExchangeOutcome, ExchangeResult};
use hither_core::{PartSink, Request};
use std::sync::Arc;

impl HttpSource {
    /// The same file, which takes the space for what is kept of it from `space`.
    #[must_use]
    pub fn with_spool_space(self, space: Arc<dyn SpoolSpace>) -> Self {
        Self { whole_file: SpooledDownload::within(space), ..self }
    }

    /// Returns whether something is kept.
    pub(super) fn has_whole_file(&self) -> bool {
        self.whole_file.is_started()
    }

    /// Serves a request from the download of the whole file; `None` if the download has to be
    /// started again.
    pub(super) async fn serve_kept(
        &self,
        target: &HttpTarget,
        request: &Request,
        sink: &mut PartSink,
    ) -> Option<ExchangeResult> {
        let HttpTarget { location, pool } = target;
        let mut delivery = Delivery::new(&request.ranges, location, pool, sink);
        let served = self.whole_file.serve(None, request, &mut delivery, location).await;
        let mut result = match served {
            Ok(true) => delivery.complete(request.tail, false),
            Ok(false) => return None,
            Err(error) => ExchangeResult::failed(error),
        };
        result.size = delivery.size;
        if let Ok(ExchangeOutcome::Complete(answer)) = &mut result.outcome {
            answer.validator = self.whole_file.validator(pool).await;
        }
        Some(result)
    }
}

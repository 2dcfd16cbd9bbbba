//! Servers that refuse several ranges with a status that says nothing of ranges.

use super::{HttpSource, HttpTarget};
use crate::pool::observation::{ExchangeResult, RangeBehavior};
use hither_core::{PartSink, Request};

impl HttpSource {
    /// Returns the result of a request; one that is refused may be too large, if the server never
    /// sent as many ranges and sends a byte of one of them now.
    pub(super) async fn with_fewer_ranges(
        &self,
        place: &HttpTarget,
        request: &Request,
        settled: ExchangeResult,
    ) -> ExchangeResult {
        let server = place.pool.server();
        let (Some(too_large), Some(range)) = (&settled.refuses_several, request.ranges.first())
        else {
            return settled;
        };
        if !server.may_refuse_several(request) {
            return settled;
        }
        let ranges = vec![range.start..range.start + 1];
        let byte = Request { ranges, tail: 0, ..request.clone() };
        let mut sink: PartSink = Box::new(drop);
        let one = Box::pin(self.exchange_once(place, &byte, &mut sink)).await;
        if one.finding != Some(RangeBehavior::Ranges) {
            return settled;
        }
        let fewer = ExchangeResult::failed(too_large.clone()).with(RangeBehavior::TooMany);
        server.learn(request, &fewer);
        fewer
    }
}

//! Opening HTTP/1.1 connections: TCP, TLS above it, HTTP above that.

use super::Pool;
use crate::connect::dialer::DialedStream;
use crate::connect::maybe_tls_stream::MaybeTlsStream;
use crate::connect::metered_stream::ConnectionMeter;
use crate::connect::tls::AlpnChoice;
use crate::pool::http1::Http1Connection;
use hither_core::SlotGuard;
use hither_core::error::{Error, ErrorKind, Result};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;

/// The maximum size of the buffer of the HTTP codec per connection. It limits a header and a single
/// read; bodies are delivered as they are read.
const READ_BUFFER_BYTES: usize = 256 * 1024;
/// The maximum number of fields in a header: by default the codec takes 100.
const MAX_FIELDS: usize = 400;

impl Pool {
    pub(super) async fn establish(
        self: &Arc<Self>,
        claim: Option<Box<dyn SlotGuard>>,
    ) -> Result<(Http1Connection, Duration)> {
        let meter =
            Arc::new(ConnectionMeter::new(Arc::clone(self.counters()), self.progress.clone()));
        let line = self.reach(&meter).await?;
        let rtt = line.rtt;
        self.measured(rtt);
        let (stream, _) = self.secure(line, AlpnChoice::Http1).await?;
        Ok((self.start_http1(stream, meter, claim).await?, rtt))
    }

    pub(super) async fn reach(&self, meter: &Arc<ConnectionMeter>) -> Result<DialedStream> {
        self.shared.dialer.dial(&self.location, self.config(), self.counters(), meter).await
    }

    /// The stream after TLS, and whether the server chose HTTP/2.
    pub(super) async fn secure(
        &self,
        line: DialedStream,
        above: AlpnChoice,
    ) -> Result<(MaybeTlsStream, bool)> {
        let dialer = &self.shared.dialer;
        dialer.start_tls(line, &self.location, self.config(), self.counters(), above).await
    }

    pub(super) async fn start_http1(
        &self,
        stream: MaybeTlsStream,
        meter: Arc<ConnectionMeter>,
        claim: Option<Box<dyn SlotGuard>>,
    ) -> Result<Http1Connection> {
        let io = TokioIo::new(stream);
        let (sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(READ_BUFFER_BYTES)
            .max_headers(MAX_FIELDS)
            // RFC 9112 section 5.2: a client replaces folds by spaces.
            .allow_obsolete_multiline_headers_in_responses(true)
            // XrdHttp 5.5 requires `Range` in exactly this case, and sends the whole file for
            // `range`.
            .title_case_headers(true)
            .handshake(io)
            .await
            .map_err(|error| {
                Error::new(ErrorKind::Unavailable, "cannot start HTTP on a connection")
                    .with_source(error)
            })?;
        // The request on the connection reports its error.
        let server = self.location.origin();
        let (ends, ended) = watch::channel(());
        self.shared.runtime.spawn(async move {
            let _ends = ends;
            match connection.await {
                Ok(()) => debug!(%server, "connection closed"),
                Err(error) => debug!(%server, %error, "connection closed"),
            }
        });
        let idle_since = Instant::now();
        Ok(Http1Connection { sender, ended, meter, answers: 0, idle_since, _claim: claim })
    }
}

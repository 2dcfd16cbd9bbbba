//! The share of a server in the time of a connection, in `Server-Timing` (W3C Server Timing).
//!
//! A client requests it with `Prefer: server-timing` (RFC 7240; other servers ignore it). The head
//! of a response is sent before its body is read from disk, so the field has the sums over the
//! earlier responses of the connection, in milliseconds:
//!
//! ```text
//! Server-Timing: connection;dur=812.4, disk;dur=702.1, client;dur=96.0
//! ```

use http::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// The preference of a client that wants the field.
pub const PREFERENCE: &str = "server-timing";
/// The field of preferences.
pub const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The field of the response.
pub const FIELD: HeaderName = HeaderName::from_static("server-timing");

/// Sums over the responses of a connection that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerTiming {
    /// Time from the head of each request to the end of its response.
    pub total: Duration,
    /// Time of threads that read and wrote files.
    pub disk: Duration,
    /// Time of waiting for the client to read, or to send more.
    pub client: Duration,
}

impl ServerTiming {
    /// Returns true if the client requests it.
    #[must_use]
    pub fn is_wanted(request: &HeaderMap) -> bool {
        let values = request.get_all(PREFER).into_iter().filter_map(|it| it.to_str().ok());
        values
            .flat_map(|it| it.split([',', ';']))
            .any(|it| it.trim().eq_ignore_ascii_case(PREFERENCE))
    }

    /// The value of the field.
    #[must_use]
    pub fn value(&self) -> Option<HeaderValue> {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let [total, disk, client] = [self.total, self.disk, self.client].map(ms);
        let text = format!("connection;dur={total:.3}, disk;dur={disk:.3}, client;dur={client:.3}");
        HeaderValue::from_str(&text).ok()
    }

    /// The sums in a response; none if the server does not state these.
    #[must_use]
    pub fn of(response: &HeaderMap) -> Option<Self> {
        let values = response.get_all(FIELD).into_iter().filter_map(|it| it.to_str().ok());
        let metrics: Vec<&str> = values.flat_map(|it| it.split(',')).collect();
        let metric = |name: &str| {
            let named =
                metrics.iter().find_map(|it| it.trim().strip_prefix(name)?.strip_prefix(';'));
            let text = named?.split(';').find_map(|it| it.trim().strip_prefix("dur="))?;
            Duration::try_from_secs_f64(text.parse::<f64>().ok()? / 1e3).ok()
        };
        Some(Self {
            total: metric("connection")?,
            disk: metric("disk")?,
            client: metric("client")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_end_writes_the_other_reads() {
        let millis = Duration::from_millis;
        let timing = ServerTiming { total: millis(812), disk: millis(702), client: millis(96) };
        let mut response = HeaderMap::new();
        response.insert(FIELD, timing.value().unwrap());
        assert_eq!(ServerTiming::of(&response), Some(timing));
        for foreign in
            ["", "cdn-cache;desc=HIT", "disk;dur=5", "connection;dur=-1, disk;dur=x, client"]
        {
            response.insert(FIELD, HeaderValue::from_str(foreign).unwrap());
            assert_eq!(ServerTiming::of(&response), None, "{foreign}");
        }
    }

    #[test]
    fn it_is_wanted_by_preference_only() {
        let mut request = HeaderMap::new();
        assert!(!ServerTiming::is_wanted(&request));
        request.insert(PREFER, HeaderValue::from_static("respond-async"));
        assert!(!ServerTiming::is_wanted(&request));
        request.append(PREFER, HeaderValue::from_static("wait=5, Server-Timing"));
        assert!(ServerTiming::is_wanted(&request));
    }
}

//! Requests that were sent in part, or completely but without a response, and temporary refusals.

use crate::fixture::network;
use bytes::Bytes;
use hither_core::storage::PutOptions;
use hither_core::{Effect, Error, ErrorKind, Retry, Storage};
use hither_testkit::mock_http::lossy_http::{LossyAct, LossyHttpServer};
use hither_testkit::mock_http::refusing_url;
use hither_transport::{
    HttpRequest, Location, Network, RequestBody, S3Config, S3Storage, ThirdPartyCopy,
    ThirdPartyMode, TransportConfig,
};
use http::Method;
use std::sync::Arc;
use std::time::Duration;

const AGAIN: Retry = Retry::SameServer { after: Duration::ZERO };
/// Seven eighths of this size exceed all buffers between a client and a server on one machine:
/// `tcp_rmem` is up to 32 MiB, `tcp_wmem` 4 MiB.
const LARGE_BODY: usize = 64 << 20;

/// A server with an act for each request, counted per method; further requests get the last act.
fn server(acts: Vec<LossyAct>) -> LossyHttpServer {
    LossyHttpServer::start(move |_, _, nth| acts[nth.min(acts.len() - 1)]).unwrap()
}

const fn status(status: u16) -> LossyAct {
    LossyAct::Respond(status, "", "")
}

fn default_network() -> Arc<Network> {
    network(TransportConfig::default())
}

fn location(url: &str) -> Location {
    Location::parse(url).unwrap()
}

fn method(name: &str) -> Method {
    Method::from_bytes(name.as_bytes()).unwrap()
}

fn request(server: &LossyHttpServer, name: &str, body: usize) -> HttpRequest {
    let mut call = HttpRequest::new(method(name), location(&server.url_of("/file")));
    if body > 0 {
        call.content = RequestBody::Bytes(vec![0; body].into());
    }
    call
}

const READING: [&str; 5] = ["GET", "HEAD", "OPTIONS", "PROPFIND", "QUERY"];
const CHANGING: [&str; 7] = ["PUT", "POST", "MOVE", "COPY", "DELETE", "MKCOL", "PATCH"];

#[tokio::test]
async fn a_request_that_was_sent_without_a_response_is_repeated_unless_it_changes_something() {
    for act in [LossyAct::Read, LossyAct::HalfAnswered] {
        for name in READING.into_iter().chain(CHANGING) {
            // A response to HEAD has no body.
            if name == "HEAD" && matches!(act, LossyAct::HalfAnswered) {
                continue;
            }
            let server = server(vec![act]);
            let error = default_network().call(request(&server, name, 10)).await.unwrap_err();
            let (count, retry) =
                if CHANGING.contains(&name) { (1, Retry::LookFirst) } else { (4, AGAIN) };
            let seen = (error.kind(), error.retry(), server.count(name));
            assert_eq!(seen, (ErrorKind::Unavailable, retry, count), "{name} {act:?}: {error}");
            let told = error.to_string().contains("may have been carried out");
            assert_eq!(told, count == 1, "{error}");
        }
    }
}

#[tokio::test]
async fn writes_that_no_other_client_sees_are_sent_again() {
    for name in ["PUT", "DELETE"] {
        let server = server(vec![LossyAct::Read, LossyAct::Read, status(201)]);
        let mut call = request(&server, name, 10);
        call.effect = Effect::Own;
        let reply = default_network().call(call).await.unwrap();
        assert_eq!((reply.status.as_u16(), server.count(name)), (201, 3));
    }
}

#[tokio::test]
async fn a_request_without_its_whole_body_cannot_have_been_carried_out() {
    for name in ["PUT", "POST"] {
        let server = server(vec![LossyAct::HalfRead, LossyAct::HalfRead, status(201)]);
        let reply = default_network().call(request(&server, name, LARGE_BODY)).await.unwrap();
        assert_eq!((reply.status.as_u16(), server.count(name)), (201, 3), "{name}");
    }
}

#[tokio::test]
async fn a_request_for_which_there_is_no_connection_was_not_sent() {
    let mut config = TransportConfig::default();
    config.wait_for_refusing = false;
    let network = network(config);
    let location = location(&refusing_url().unwrap());
    for name in READING.into_iter().chain(CHANGING) {
        let call = HttpRequest::new(method(name), location.clone());
        let error = network.call(call).await.unwrap_err();
        assert_eq!(error.retry(), Retry::OtherServer, "{name}");
    }
}

#[tokio::test]
async fn a_change_on_a_connection_that_breaks_when_it_is_used_again_arrives_once_at_most() {
    for name in READING.into_iter().chain(CHANGING) {
        let server = LossyHttpServer::start(|method, _, nth| match (method, nth) {
            ("TRACE", _) | (_, 1..) => status(200),
            _ => LossyAct::Read,
        });
        let server = server.unwrap();
        let network = default_network();
        network.call(request(&server, "TRACE", 0)).await.unwrap();
        let called = network.call(request(&server, name, 10)).await;
        let count = server.count(name);
        if CHANGING.contains(&name) {
            assert_eq!((called.unwrap_err().retry(), count), (Retry::LookFirst, 1), "{name}");
        } else {
            assert_eq!((called.unwrap().status.as_u16(), count), (200, 2), "{name}");
        }
    }
}

#[tokio::test]
async fn a_request_that_is_refused_for_now_is_sent_again_with_any_method() {
    let fields = [
        "",
        "Retry-After: 0\r\n",
        "Retry-After: soon\r\n",
        "Retry-After: Sat, 21 Nov 2026 11:57:38 GMT\r\nDate: Sat, 21 Nov 2026 11:57:40 GMT\r\n",
    ];
    for name in READING.into_iter().chain(CHANGING) {
        for (code, fields) in [408, 425, 429, 503].into_iter().zip(fields) {
            let mut acts = vec![LossyAct::Respond(code, fields, ""); 6];
            acts.push(status(204));
            let server = server(acts);
            let reply = default_network().call(request(&server, name, 10)).await.unwrap();
            let seen = (reply.status.as_u16(), server.count(name));
            assert_eq!(seen, (204, 7), "{name} {code}");
        }
    }
}

#[tokio::test]
async fn a_server_that_stays_busy_is_asked_until_the_busy_timeout() {
    let later =
        "Retry-After: Sat, 21 Nov 2026 12:57:38 GMT\r\nDate: Sat, 21 Nov 2026 11:57:38 GMT\r\n";
    for (fields, is_repeated) in [("", true), ("Retry-After: 61\r\n", false), (later, false)] {
        let server = server(vec![LossyAct::Respond(503, fields, "")]);
        let mut config = TransportConfig::default();
        config.retry.busy_timeout = Duration::from_millis(400);
        let reply = network(config).call(request(&server, "PROPFIND", 0)).await.unwrap();
        assert_eq!((reply.status.as_u16(), reply.has_waited), (503, is_repeated));
        assert_eq!(server.count("PROPFIND") > 1, is_repeated, "{fields}");
    }
}

/// A bucket with an object at every name; responses to requests that begin with `lost` are lost.
fn bucket(lost: &'static str) -> (S3Storage, LossyHttpServer) {
    let fields = "ETag: \"a\"\r\nLast-Modified: Sat, 21 Nov 2026 11:57:38 GMT\r\n";
    let server = LossyHttpServer::start(move |method, target, _| match method {
        _ if format!("{method} {target}").starts_with(lost) => LossyAct::Read,
        "HEAD" => LossyAct::Respond(200, fields, ""),
        "PUT" if target.contains("partNumber") => LossyAct::Respond(200, fields, ""),
        "PUT" => LossyAct::Respond(200, fields, "<CopyObjectResult/>"),
        "POST" => LossyAct::Respond(200, "", UPLOAD),
        _ => LossyAct::Respond(204, "", ""),
    });
    let server = server.unwrap();
    let config = S3Config { endpoint: Some(server.url_of("")), ..S3Config::default() };
    (S3Storage::new("bucket", &config, default_network()).unwrap(), server)
}

const UPLOAD: &str = "<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>a</Key>\
    <UploadId>1</UploadId></InitiateMultipartUploadResult>";

async fn put(storage: &S3Storage, size: usize) -> Result<(), Error> {
    let mut options = PutOptions::default();
    (options.size, options.overwrite) = (size as u64, true);
    let upload = storage.put("a", options).await?;
    let block = usize::try_from(upload.block_bytes()).unwrap().max(1 << 20);
    let bytes = Bytes::from(vec![0; size]);
    for from in (0..size).step_by(block) {
        upload.write(from as u64, bytes.slice(from..size.min(from + block))).await?;
    }
    upload.commit(None).await.map(drop)
}

#[tokio::test]
async fn a_change_of_a_bucket_is_sent_once_and_unseen_parts_again() {
    let once = |called: Result<(), Error>, count| {
        let error = called.unwrap_err();
        assert_eq!((error.retry(), count), (Retry::LookFirst, 1), "{error}");
        assert!(error.to_string().contains("may have been carried out"), "{error}");
    };
    let (storage, server) = bucket("DELETE /bucket/a");
    once(storage.remove("a").await, server.count("DELETE"));
    let (storage, server) = bucket("PUT");
    once(storage.rename("a", "b", true).await, server.count("PUT"));
    assert_eq!(server.count("DELETE"), 0);
    let (storage, server) = bucket("PUT");
    once(put(&storage, 10).await, server.count("PUT"));
    // One request has started the upload.
    let (storage, server) = bucket("POST /bucket/a?uploadId");
    once(put(&storage, 6 << 20).await, server.count("POST") - 1);
    let (storage, server) = bucket("PUT /bucket/a?partNumber=2");
    let error = put(&storage, 6 << 20).await.unwrap_err();
    // The first part; the second part on the connection of the first, which may have been stale;
    // and the attempts.
    assert_eq!((error.retry(), server.count("PUT")), (AGAIN, 1 + 1 + 4), "{error}");
    let (storage, server) = bucket("GET");
    let error = storage.list("").await.unwrap_err();
    assert_eq!((error.retry(), server.count("GET")), (AGAIN, 4), "{error}");
}

#[tokio::test]
async fn an_upload_that_its_bucket_has_aborted_is_not_resumed_again() {
    let gone = LossyAct::Respond(404, "", "<Error><Code>NoSuchUpload</Code></Error>");
    // A user who may write parts may not always list them.
    let server = LossyHttpServer::start(move |method, _, _| match method {
        "GET" => LossyAct::Respond(403, "", "<Error><Code>AccessDenied</Code></Error>"),
        _ => gone,
    });
    let server = server.unwrap();
    let config = S3Config { endpoint: Some(server.url_of("")), ..S3Config::default() };
    let storage = S3Storage::new("bucket", &config, default_network()).unwrap();
    let mut options = PutOptions::default();
    (options.size, options.overwrite) = (6 << 20, true);
    options.resume = Some(format!("{} 1\n0 \"a\"", 5 << 20));
    let upload = storage.put("a", options).await.unwrap();
    assert_eq!(upload.present(), [0..5 << 20]);
    assert!(upload.token().is_some());
    let error = upload.write(5 << 20, Bytes::from(vec![0; 1 << 20])).await.unwrap_err();
    assert_eq!((error.kind(), upload.token()), (ErrorKind::NotFound, None), "{error}");
    assert!(error.to_string().contains("the next attempt begins anew"), "{error}");
}

#[tokio::test]
async fn a_copy_between_servers_without_its_outcome_is_requested_once() {
    let report = "Perf Marker\nStripe Index: 0\nStripe Bytes Transferred: 5\nEnd\n";
    for act in [
        LossyAct::Read,
        LossyAct::HalfAnswered,
        LossyAct::Respond(202, "", report),
        LossyAct::Respond(500, "", ""),
    ] {
        let server = server(vec![act]);
        let copy = ThirdPartyCopy {
            source: location("http://127.0.0.1:9/file"),
            target: location(&server.url_of("/file")),
            mode: ThirdPartyMode::Pull,
            overwrite: true,
        };
        let error = default_network().third_party_copy(&copy, |_| {}).await.unwrap_err();
        let seen = (error.retry(), server.count("COPY"));
        assert_eq!(seen, (Retry::LookFirst, 1), "{act:?}: {error}");
        assert!(error.to_string().contains("may have been carried out"), "{error}");
    }
}

//! Several responses on one connection, with every version of HTTP: each complete and in order.

use crate::rig::Served;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io::{Read, Write};

const SIZE: usize = 5_000_000;

fn content() -> Vec<u8> {
    (0..SIZE).map(|n| u8::try_from((n * n / 13 + n) % 251).unwrap()).collect()
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let served = Served::for_reading();
    let content = content();
    served.file("file", &content);
    let wanted = [0..SIZE, 10..20, 0..0, 1_000_000..4_000_000, 4_999_000..SIZE];
    let mut stream = served.connect();
    for range in &wanted {
        let (method, field) = if range.is_empty() {
            ("HEAD", String::new())
        } else {
            ("GET", format!("Range: bytes={}-{}\r\n", range.start, range.end - 1))
        };
        let request = format!("{method} /file HTTP/1.1\r\nHost: localhost\r\n{field}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
    }
    let last = "GET /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(last.as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let mut rest = all.as_slice();
    for range in wanted.into_iter().chain([0..SIZE]) {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(rest[..end].to_vec()).unwrap();
        let length = if range.is_empty() { SIZE } else { range.len() };
        assert!(
            head.to_ascii_lowercase().contains(&format!("content-length: {length}\r\n")),
            "{head}"
        );
        let (body, after) = rest[end..].split_at(range.len());
        assert!(*body == content[range.clone()], "{range:?}");
        rest = after;
    }
    assert!(rest.is_empty());
}

#[test]
fn an_http_1_0_client_gets_the_file_and_the_end_of_the_connection() {
    let served = Served::for_reading();
    served.file("file", &content());
    let mut stream = served.connect();
    stream.write_all(b"GET /file HTTP/1.0\r\n\r\n").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all.ends_with(&content()) && all.starts_with(b"HTTP/1.0 200"));
}

#[test]
fn a_client_that_begins_with_http_2_gets_several_files_at_a_time() {
    let served = Served::for_reading();
    served.file("file", &content());
    let stream = served.connect();
    stream.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream).unwrap());
        let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await;
        let (mut sender, connection) = shaken.unwrap();
        tokio::spawn(connection);
        let mut answers = Vec::new();
        for _ in 0..3 {
            let request =
                http::Request::get("http://localhost/file").body(Empty::<Bytes>::new()).unwrap();
            answers.push(sender.send_request(request));
        }
        for answer in answers {
            let answer = answer.await.unwrap();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert!(body == content());
        }
    });
}

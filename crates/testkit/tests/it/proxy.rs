//! The proxy between real sockets on the loopback.

use hither_netem::Link;
use hither_testkit::tcp_proxy::{TcpProxy, TcpProxyConfig};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const LOOPBACK: &str = "127.0.0.1:0";

/// A server that answers each byte with this many.
async fn server(answer: usize) -> SocketAddr {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut byte = [0];
                while stream.read(&mut byte).await.is_ok_and(|read| read == 1) {
                    let bytes: Vec<u8> = (0..answer).map(|i| i.to_le_bytes()[0]).collect();
                    if stream.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

async fn proxy(config: TcpProxyConfig, answer: usize) -> TcpProxy {
    let to = server(answer).await.to_string();
    TcpProxy::start(LOOPBACK.parse().unwrap(), to, config).await.unwrap()
}

#[tokio::test]
async fn bytes_pass_unchanged_and_are_counted() {
    let link = Link::new(Duration::from_millis(2), Some(200_000_000));
    let proxy = proxy(TcpProxyConfig { link, ..TcpProxyConfig::default() }, 300_000).await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    for _ in 0..3 {
        stream.write_all(b"?").await.unwrap();
        let mut bytes = vec![0; 300_000];
        stream.read_exact(&mut bytes).await.unwrap();
        assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == i.to_le_bytes()[0]));
    }
    let counts = proxy.counts();
    assert_eq!((counts.connections, counts.turns), (1, 3));
    assert_eq!((counts.to_server_bytes, counts.to_client_bytes), (3, 900_000));
}

#[tokio::test]
async fn requests_in_parallel_are_one_turn() {
    let link = Link::new(Duration::from_millis(200), None);
    let proxy = proxy(TcpProxyConfig { link, ..TcpProxyConfig::default() }, 1000).await;
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(TcpStream::connect(proxy.address()).await.unwrap());
    }
    for connection in &mut connections {
        connection.write_all(b"?").await.unwrap();
    }
    for connection in &mut connections {
        connection.read_exact(&mut [0; 1000]).await.unwrap();
    }
    assert_eq!((proxy.counts().connections, proxy.counts().turns), (4, 1));
}

#[tokio::test]
async fn end_of_one_direction_leaves_the_other() {
    let proxy = proxy(TcpProxyConfig::default(), 10).await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_all(b"??").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    assert_eq!(all.len(), 20);
}

#[tokio::test]
async fn absent_server_resets() {
    // The port is taken, and nothing listens on it.
    let absent = TcpSocket::new_v4().unwrap();
    absent.bind(LOOPBACK.parse().unwrap()).unwrap();
    let server = absent.local_addr().unwrap().to_string();
    let config = TcpProxyConfig::default();
    let proxy = TcpProxy::start(LOOPBACK.parse().unwrap(), server, config).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(stream.read_to_end(&mut Vec::new()).await.is_err());
    assert_eq!(proxy.counts().refused, 1);
}

#[cfg(unix)]
#[test]
fn command_prints_where_it_listens_and_what_it_lacks() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hither-proxy"))
        .args(["--to", "127.0.0.1:1", "--rtt", "5ms", "--rate", "8Mbit"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on 127.0.0.1:"), "{line}");
    assert!(line.contains("5 ms, 8 Mbit/s") && line.contains("no TCP slow start"), "{line}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("0 connections (0 refused), 0 bytes"), "{rest}");
}

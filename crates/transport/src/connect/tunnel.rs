//! A tunnel through a proxy to the port of a server: the method `CONNECT` (RFC 9110 section 9.3.6).

use crate::connect::proxy::Proxy;
use crate::location::Location;
use hither_core::error::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The maximum size of the header of a proxy's response.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Requests a tunnel from the proxy at the other end of `stream`. Afterwards the stream leads to
/// the server of `location`.
///
/// # Errors
///
/// [`ErrorKind::Unauthenticated`] if the proxy requires other credentials,
/// [`ErrorKind::PermissionDenied`] and [`ErrorKind::Unavailable`] if it refuses,
/// [`ErrorKind::Protocol`] if it is not a proxy.
pub(crate) async fn open(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    proxy: &Proxy,
    location: &Location,
    user_agent: &str,
) -> Result<()> {
    let to = location.host_and_port();
    let mut request =
        format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nUser-Agent: {user_agent}\r\n").into_bytes();
    if let Some(authorization) = proxy.authorization() {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(authorization.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    let broken = |error: std::io::Error| {
        let what =
            format!("the proxy {proxy} closed the connection when it was asked to connect to {to}");
        Error::new(ErrorKind::Unavailable, what).with_source(error)
    };
    stream.write_all(&request).await.map_err(broken)?;
    let mut answer = Vec::new();
    loop {
        let mut byte = [0; 1024];
        let read = stream.read(&mut byte).await.map_err(broken)?;
        answer.extend(byte.get(..read).unwrap_or_default());
        match status(&answer) {
            // A server behind the tunnel does not send first.
            Some(Ok((status, end))) if (200..300).contains(&status) && end == answer.len() => {
                return Ok(());
            }
            Some(Ok((status, _))) => return Err(refused(status, proxy, &to)),
            None if read > 0 && answer.len() <= MAX_HEAD_BYTES => {}
            None if answer.is_empty() => {
                return Err(broken(std::io::ErrorKind::UnexpectedEof.into()));
            }
            Some(Err(_)) | None => {
                let what =
                    format!("the response of {proxy} to CONNECT is not HTTP: is it a proxy?");
                return Err(Error::new(ErrorKind::Protocol, what));
            }
        }
    }
}

/// The status and the length of the header; `None` while it is incomplete.
fn status(answer: &[u8]) -> Option<Result<(u16, usize), httparse::Error>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    match head.parse(answer) {
        Ok(httparse::Status::Complete(end)) => Some(Ok((head.code.unwrap_or_default(), end))),
        Ok(httparse::Status::Partial) => None,
        Err(error) => Some(Err(error)),
    }
}

fn refused(status: u16, proxy: &Proxy, to: &str) -> Error {
    let seen =
        format!("the proxy {proxy} responded with {status} when it was asked to connect to {to}");
    match status {
        407 if proxy.authorization().is_some() => Error::new(
            ErrorKind::Unauthenticated,
            format!("{seen}: it rejects the user and password in its URL"),
        ),
        407 => Error::new(
            ErrorKind::Unauthenticated,
            format!(
                "{seen}: it requires a user and password, as in http://user:password@host:port"
            ),
        ),
        403 | 405 => Error::new(
            ErrorKind::PermissionDenied,
            format!("{seen}: it does not allow this host or port"),
        ),
        200..300 => {
            Error::new(ErrorKind::Protocol, format!("{seen} and sent data before the server did"))
        }
        _ => Error::new(
            ErrorKind::Unavailable,
            format!(
                "{seen}: it cannot reach the server; add the host to no_proxy if it needs no proxy"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::proxy::Proxies;

    /// Requests a tunnel from a proxy that responds with these pieces and then closes.
    async fn ask(pieces: &[&str], url: &str) -> (Result<()>, String) {
        let proxies = Proxies::new(None, Some(url), None, None).unwrap();
        let location = Location::parse("https://host/x").unwrap();
        let (mut ours, mut theirs) = tokio::io::duplex(4096);
        let asking = async {
            let result = open(&mut ours, proxies.to(&location).unwrap(), &location, "me/1").await;
            drop(ours);
            result
        };
        let answering = async {
            let mut asked = vec![0; 4096];
            let read = theirs.read(&mut asked).await.unwrap();
            asked.truncate(read);
            for piece in pieces {
                // The client may have closed already.
                drop(theirs.write_all(piece.as_bytes()).await);
                tokio::task::yield_now().await;
            }
            drop(theirs);
            String::from_utf8(asked).unwrap()
        };
        tokio::join!(asking, answering)
    }

    #[tokio::test]
    async fn a_tunnel_is_asked_for_and_used_once_the_head_is_there() {
        let (result, asked) =
            ask(&["HTTP/1.1 200 Conn", "ection established\r\nX: y\r\n", "\r\n"], "p:1").await;
        result.unwrap();
        assert_eq!(
            asked,
            "CONNECT host:443 HTTP/1.1\r\nHost: host:443\r\nUser-Agent: me/1\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn credentials_go_to_the_proxy_and_nowhere_else() {
        let (result, asked) = ask(&["HTTP/1.1 407 No\r\n\r\n"], "http://me:secret@p:1").await;
        assert!(asked.contains("\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{asked}");
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }

    #[tokio::test]
    async fn refusals_and_malformed_responses_are_distinguished() {
        for (answer, kind) in [
            ("HTTP/1.1 407 Who\r\n\r\n", ErrorKind::Unauthenticated),
            ("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", ErrorKind::PermissionDenied),
            ("HTTP/1.1 502 Bad\r\n\r\n", ErrorKind::Unavailable),
            ("HTTP/1.1 200 OK\r\n\r\nhello", ErrorKind::Protocol),
            ("SSH-2.0-OpenSSH\r\n", ErrorKind::Protocol),
            ("HTTP/1.1 200 O", ErrorKind::Protocol),
            ("", ErrorKind::Unavailable),
        ] {
            let (result, _) = ask(&[answer], "p:1").await;
            assert_eq!(result.unwrap_err().kind(), kind, "{answer:?}");
        }
        let endless = "X: ".to_owned() + &"x".repeat(2 * MAX_HEAD_BYTES);
        let (result, _) = ask(&["HTTP/1.1 200 OK\r\n", &endless], "p:1").await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Protocol);
    }
}

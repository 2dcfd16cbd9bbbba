//! Ports of 127.0.0.1 for the servers of tests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;

/// A test server on a free port with its own thread and runtime, so that blocking tests can use it
/// too. Dropping it stops both.
#[derive(Debug)]
pub(crate) struct TestServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Runs `serve` until the server is dropped; tasks in its own join sets end with it.
    ///
    /// # Errors
    ///
    /// No socket, runtime or thread can be created.
    pub(crate) fn start<F: Future>(
        name: &str,
        serve: impl FnOnce(TcpListener) -> F + Send + 'static,
    ) -> io::Result<Self> {
        // The caller may already be in a runtime, where blocking is not allowed.
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::select! {
                    _ = serve(listener) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            drop(thread.join());
        }
    }
}

/// A port of 127.0.0.1 that the kernel gives to no other socket of this machine, neither before the
/// server listens on it nor later.
///
/// A socket is bound to it and does not listen. A server that sets `SO_REUSEADDR`, as most do, can
/// bind it nevertheless.
#[derive(Debug)]
pub struct ReservedPort(TcpSocket);

impl ReservedPort {
    /// Reserves a port until this value is dropped.
    ///
    /// # Errors
    ///
    /// No socket can be created.
    pub fn new() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self(socket))
    }

    /// The number of the port.
    ///
    /// # Errors
    ///
    /// The kernel does not tell it.
    pub fn number(&self) -> io::Result<u16> {
        Ok(self.0.local_addr()?.port())
    }
}

//! The server as a whole: from settings to something that runs and can be stopped.
//!
//! ```text
//!  connection   taking them, TLS, HTTP/1.1 and HTTP/2 (hyper), clocks
//!     │
//!  context         one request: its name, which method, what every answer carries  ── monitoring   what is noted of it
//!     │   ╰───── rights    who may do what: tokens, certificates (Authorizer)
//!     │
//!  method       one file for each method or pair of them; third_party for copies between servers
//!     │   ╰───── space     what may be written where: lots
//!     │
//!  files        the tree, confined below the root; on threads that may wait for the disk
//!     │
//!  sending      from disk to the connection in bounded memory, or past it
//! ```

use crate::authorization::authorizer::Authorizer;
use crate::backend::Backend;
use crate::backend::disk::DiskBackend;
use crate::backend::disk::cleanup::CleanupAges;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::lot_charging::LotCharging;
use crate::connection::acceptor::Acceptor;
use crate::connection::tls::{self, CertificateReloader};
use crate::context::ServerContext;
use crate::lots::settings::TEND_EVERY;
use crate::lots::{Lots, seconds};
use crate::monitoring::access_log::AccessLog;
use crate::monitoring::admin_server::AdminServer;
use crate::monitoring::request_record::RequestRecorder;
use crate::monitoring::stats::ServerStats;
use crate::settings::Settings;
use crate::settings::reload::{PreparedReload, Reloader};
use hither_core::error::{Error, ErrorKind, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Connections that may wait to be taken.
const BACKLOG: u32 = 4096;
/// How often what uploads have left behind is looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 3_600);

/// How long threads that wait for the disk hold up the end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A server that runs, on threads of its own, until it is stopped or dropped.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    doors: JoinSet<()>,
    addresses: Vec<SocketAddr>,
    metrics: Option<SocketAddr>,
    is_secure: bool,
    stop: ShutdownHandle,
    reloader: Reloader,
    log: AccessLog,
}

/// Stops a server: no connection is taken any more, what is under way may end.
#[derive(Debug, Clone)]
pub struct ShutdownHandle(Arc<watch::Sender<bool>>);

impl ShutdownHandle {
    /// Does so. A second time changes nothing.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Starts a server. Everybody may do what its settings allow.
    ///
    /// # Errors
    /// Settings that make no sense, a tree that cannot be opened, a certificate that cannot be used, an address that is
    /// taken.
    pub fn start(settings: Settings) -> Result<Self> {
        Self::run(settings, None, None)
    }

    /// The same, where `authorizer` decides who may do what.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(settings: Settings, authorizer: Arc<dyn Authorizer>) -> Result<Self> {
        Self::run(settings, Some(authorizer), None)
    }

    /// Starts a server over a backend of the caller's in place of the directory `root`.
    ///
    /// # Errors
    /// As [`Server::start`]; [`ErrorKind::Invalid`] for settings with lots, which reserve space of a
    /// directory.
    pub fn start_with_backend(settings: Settings, backend: Arc<dyn Backend>) -> Result<Self> {
        if settings.lots.is_some() {
            let what = "[lots] cannot be used with another backend than a directory";
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        Self::run(settings, None, Some(backend))
    }

    fn run(
        settings: Settings,
        authorizer: Option<Arc<dyn Authorizer>>,
        backend: Option<Arc<dyn Backend>>,
    ) -> Result<Self> {
        settings.check()?;
        let lots = settings.lots.as_ref().map(|lots| lots.open(&settings.root)).transpose()?;
        let disk = match &backend {
            Some(_) => None,
            None => Some(DiskBackend::new(
                ConfinedDir::open(&settings.root, settings.durable)?,
                LotCharging::new(lots.clone()),
                settings.limits.disk_threads,
            )),
        };
        let log = AccessLog::open(settings.access_log.as_deref())?;
        let stats = settings.metrics.map(|_| ServerStats::new().map(Arc::new)).transpose()?;
        raise_open_files();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("hither-serve")
            .max_blocking_threads(settings.limits.disk_threads)
            .enable_all()
            .build()
            .map_err(|error| local("cannot start the server's threads", error))?;
        let PreparedReload { rules, certificate } =
            PreparedReload::new(&settings, authorizer.as_ref(), runtime.handle())?;
        let tls = certificate.map(|current| Arc::new(CertificateReloader::new(current)));
        let (stop, stopped) = watch::channel(false);
        let connections = Arc::new(Semaphore::new(settings.limits.connections));
        let is_secure = tls.is_some();
        if let Some(lots) = &lots {
            runtime.spawn(tend(Arc::clone(lots)));
        }
        let records = RequestRecorder { log: log.clone(), stats: stats.clone() };
        if let Some(disk) = disk.as_ref().filter(|_| settings.write) {
            runtime.spawn(remove_stale(disk.clone(), settings.limits.unfinished()));
        }
        let disk = disk.map(|disk| Arc::new(disk) as Arc<dyn Backend>);
        let no_backend = || Error::new(ErrorKind::Invalid, "there is nothing to serve");
        let backend = backend.or(disk).ok_or_else(no_backend)?;
        let context = Arc::new(ServerContext::new(rules, backend, records, lots));
        let door = Arc::new(Acceptor {
            context: Arc::clone(&context),
            tls: tls.clone(),
            connections,
            stop: stopped.clone(),
        });
        let mut server = Self {
            doors: JoinSet::new(),
            addresses: Vec::new(),
            metrics: None,
            is_secure,
            stop: ShutdownHandle(Arc::new(stop)),
            reloader: Reloader::new(
                settings.clone(),
                authorizer,
                Arc::clone(&context),
                tls.clone(),
                runtime.handle().clone(),
            ),
            runtime,
            log,
        };
        for address in &settings.listen {
            let (listener, address) = server.open_door(*address)?;
            settings.network.apply(&listener)?;
            server.addresses.push(address);
            server.doors.spawn_on(Arc::clone(&door).serve(listener), server.runtime.handle());
        }
        if let Some((address, stats)) = settings.metrics.zip(stats) {
            let (listener, address) = server.open_door(address)?;
            server.metrics = Some(address);
            let (urls, began) = (server.urls(), Instant::now());
            let connections = settings.limits.connections;
            let tls = tls.clone();
            let monitor =
                AdminServer { context, stats, tls, stop: stopped, urls, connections, began };
            let monitor = Arc::new(monitor);
            server.runtime.spawn(Arc::clone(&monitor).serve(listener));
            server.runtime.spawn(monitor.sample());
        }
        if let Some(tls) = tls {
            server.runtime.spawn(look_after(tls));
        }
        Ok(server)
    }

    fn open_door(&self, address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
        let _inside = self.runtime.enter();
        let listener = open_door(address)?;
        let address = listener
            .local_addr()
            .map_err(|error| local("cannot read the address of a listening socket", error))?;
        Ok((listener, address))
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The same as URLs.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.is_secure { "https" } else { "http" };
        self.addresses.iter().map(|address| format!("{scheme}://{address}/")).collect()
    }

    /// Where its metrics, its health and its status page are, if it has them.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// What gives it other settings while it runs.
    #[must_use]
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// What stops it from elsewhere.
    #[must_use]
    pub fn stopper(&self) -> ShutdownHandle {
        self.stop.clone()
    }

    /// From now on a SIGTERM to this process stops it.
    ///
    /// # Errors
    /// [`ErrorKind::Local`] if the signal cannot be watched.
    pub fn stop_on_termination(&self) -> Result<()> {
        let mut terminations = self.signals(SignalKind::terminate(), "SIGTERM")?;
        let stop = self.stopper();
        self.runtime.spawn(async move {
            terminations.recv().await;
            stop.stop();
        });
        Ok(())
    }

    /// From now on each SIGHUP to this process is followed by `work`, one after the other, on a thread that may wait.
    ///
    /// # Errors
    /// [`ErrorKind::Local`] if the signal cannot be watched.
    pub fn on_hangup(&self, work: impl Fn() + Send + Sync + 'static) -> Result<()> {
        let mut hangups = self.signals(SignalKind::hangup(), "SIGHUP")?;
        let work = Arc::new(work);
        self.runtime.spawn(async move {
            while hangups.recv().await.is_some() {
                let work = Arc::clone(&work);
                drop(tokio::task::spawn_blocking(move || work()).await);
            }
        });
        Ok(())
    }

    /// Does `work`, which does not wait for anything, when the server is told to stop; [`Server::wait`] does not end before.
    pub fn when_stopped(&mut self, work: impl FnOnce() + Send + 'static) {
        let mut stop = self.stop.0.subscribe();
        let work = async move {
            if stop.wait_for(|stop| *stop).await.is_ok() {
                work();
            }
        };
        self.doors.spawn_on(work, self.runtime.handle());
    }

    fn signals(&self, kind: SignalKind, name: &str) -> Result<Signal> {
        let _inside = self.runtime.enter();
        signal(kind).map_err(|error| local(&format!("cannot watch for {name}"), error))
    }

    /// Waits until it has been stopped and what was under way has ended, or has had the time that the settings give it.
    pub fn wait(mut self) {
        self.runtime.block_on(async { while self.doors.join_next().await.is_some() {} });
        // What is under way still is given up, and noted so.
        self.runtime.shutdown_timeout(LAST_WORDS);
        self.log.flush();
    }
}

/// Takes over certificates that have changed.
async fn look_after(tls: Arc<CertificateReloader>) {
    let mut tick = tokio::time::interval(tls::LOOK_EVERY);
    loop {
        tick.tick().await;
        let tls = Arc::clone(&tls);
        drop(tokio::task::spawn_blocking(move || tls.refresh()).await);
    }
}

/// Removes what uploads have left behind: now, and once a day.
async fn remove_stale(disk: DiskBackend, unfinished: Duration) {
    let mut tick = tokio::time::interval(SWEEP_EVERY);
    // What a server that was killed left under private names may go if no other server has this tree.
    let own = disk.own_it();
    let mut private = own.is_some().then(SystemTime::now);
    loop {
        tick.tick().await;
        let unfinished = SystemTime::now().checked_sub(unfinished).unwrap_or(UNIX_EPOCH);
        let ages = CleanupAges { private: private.take(), unfinished };
        // An error is retried the next time.
        drop(disk.remove_stale(ages).await);
    }
}

/// Ends leases.
async fn tend(lots: Arc<Lots>) {
    let mut tick = tokio::time::interval(TEND_EVERY);
    loop {
        tick.tick().await;
        let lots = Arc::clone(&lots);
        // What failed is tried again the next time.
        drop(tokio::task::spawn_blocking(move || lots.tend(seconds())).await);
    }
}

fn local(what: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Local, what).with_source(error)
}

fn open_door(address: SocketAddr) -> Result<TcpListener> {
    let open = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    open().map_err(|error| {
        let what = format!("cannot listen on {address}: {error}");
        Error::new(ErrorKind::Local, what).with_source(error)
    })
}

/// A connection and the file that is sent on it are two open files: as many as the administrator allows.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // If it may not, it serves fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

//! The server as a whole, from its settings to shutdown.
//!
//! ```text
//!  connection      accept, TLS, HTTP/1.1 and HTTP/2 (hyper), timeouts
//!     │
//!  router          path, method, common header fields ── monitoring      log, metrics, status
//!     │   ╰─────── authorization                         tokens, certificates
//!     │
//!  method          one file per method or pair; third_party: copies between servers
//!     │   ╰─────── lots                                  space reservations
//!     │
//!  backend         disk: a directory tree, confined below its root, on threads that may block
//!     │
//!  response        from the backend to the connection in bounded memory
//! ```

pub(crate) mod sandbox;

use crate::authorization::authorizer::Authorizer;
use crate::backend::Backend;
use crate::backend::disk::cleanup::{self, CleanupAges};
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::lot_charging::LotCharging;
use crate::backend::disk::{self, DiskBackend};
use crate::backend::tape::{TapeDoor, TapeHelper};
use crate::connection::acceptor::Acceptor;
use crate::connection::table::ConnectionTable;
use crate::connection::tls::{self, CertificateReloader};
use crate::context::ServerContext;
use crate::lots::settings::TEND_EVERY;
use crate::lots::{Lots, seconds};
use crate::monitoring::access_log::AccessLog;
use crate::monitoring::admin_server::AdminServer;
use crate::monitoring::request_record::RequestRecorder;
use crate::monitoring::stats::ServerStats;
use crate::response::buffer_pool::BufferPool;
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
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 4096;
/// The time between two searches for files that uploads left behind.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(24 * 3_600);
/// The same while space is short.
const SPACE_INTERVAL: Duration = Duration::from_secs(3_600);
/// The maximum time that shutdown waits for threads that wait for the disk.
const MAX_THREAD_WAIT: Duration = Duration::from_millis(200);

/// A running server, on threads of its own, until it is stopped or dropped.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    tasks: JoinSet<()>,
    addresses: Vec<SocketAddr>,
    metrics: Option<SocketAddr>,
    is_secure: bool,
    stop: ShutdownHandle,
    reloader: Reloader,
    log: AccessLog,
    warnings: Vec<String>,
}

/// Stops a server: it accepts no further connections, and active requests may end.
#[derive(Debug, Clone)]
pub struct ShutdownHandle(Arc<watch::Sender<bool>>);

impl ShutdownHandle {
    /// Stops the server. Further calls change nothing.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Starts a server. Everybody may do what its settings allow.
    ///
    /// # Errors
    /// The settings are invalid, the directory cannot be opened, the certificate cannot be used, or
    /// an address is in use.
    pub fn start(settings: Settings) -> Result<Self> {
        Self::run(settings, None, None, None)
    }

    /// Starts a server with the helper that settings with `[tape]` need.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with_tape(settings: Settings, tape: Option<TapeHelper>) -> Result<Self> {
        Self::run(settings, None, None, tape)
    }

    /// Starts a server whose `authorizer` decides who may do what.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(settings: Settings, authorizer: Arc<dyn Authorizer>) -> Result<Self> {
        Self::run(settings, Some(authorizer), None, None)
    }

    /// Starts a server over another backend than the directory `root`.
    ///
    /// # Errors
    /// As [`Server::start`]; [`ErrorKind::Invalid`] for settings that need a directory.
    pub fn start_with_backend(settings: Settings, backend: Arc<dyn Backend>) -> Result<Self> {
        check_without_directory(&settings)?;
        Self::run(settings, None, Some(backend), None)
    }

    /// Checks the settings as a start does, but listens nowhere and makes no file. Returns the
    /// warnings. `has_backend` is true for a server that does not serve the directory `root`.
    ///
    /// # Errors
    /// As [`Server::start`] or [`Server::start_with_backend`].
    pub fn check(settings: &Settings, has_backend: bool) -> Result<Vec<String>> {
        settings.check()?;
        if has_backend {
            check_without_directory(settings)?;
        } else {
            let limits = &settings.limits;
            ConfinedDir::open(&settings.root, settings.durable, limits.min_free_bytes)?;
        }
        let runtime = runtime(1)?;
        PreparedReload::new(settings, None, runtime.handle()).map(|prepared| prepared.warnings)
    }

    fn run(
        settings: Settings,
        authorizer: Option<Arc<dyn Authorizer>>,
        backend: Option<Arc<dyn Backend>>,
        tape: Option<TapeHelper>,
    ) -> Result<Self> {
        settings.check()?;
        let limits = &settings.limits;
        let lots = settings.lots.as_ref().map(|lots| lots.open(&settings.root)).transpose()?;
        let disk = match &backend {
            Some(_) => None,
            None => Some(DiskBackend::new(
                ConfinedDir::open(&settings.root, settings.durable, limits.min_free_bytes)?,
                LotCharging::new(lots.clone()),
                limits.disk_threads,
            )),
        };
        let log = AccessLog::open(settings.access_log.as_deref())?;
        let stats = settings.metrics.map(|_| ServerStats::new().map(Arc::new)).transpose()?;
        raise_open_files();
        let runtime = runtime(limits.disk_threads)?;
        let PreparedReload { rules, certificate, warnings } =
            PreparedReload::new(&settings, authorizer.as_ref(), runtime.handle())?;
        let tls = certificate.map(|current| Arc::new(CertificateReloader::new(current)));
        let (stop, stopped) = watch::channel(false);
        let memory = Arc::new(BufferPool::new(limits.memory_bytes));
        let connections = Arc::new(ConnectionTable::new(limits, &memory));
        lots.iter().for_each(|lots| drop(runtime.spawn(tend(Arc::clone(lots)))));
        let tape = open_tape(&settings, tape, &runtime)?;
        let records = RequestRecorder { log: log.clone(), stats: stats.clone() };
        if let Some(disk) = disk.as_ref().filter(|_| settings.write) {
            runtime.spawn(remove_stale(disk.clone(), limits.unfinished()));
        }
        let disk = disk.map(|disk| Arc::new(disk) as Arc<dyn Backend>);
        let no_backend = || Error::new(ErrorKind::Invalid, "there is nothing to serve");
        let backend = backend.or(disk).ok_or_else(no_backend)?;
        let context = Arc::new(ServerContext::new(rules, backend, records, lots, tape, memory));
        let acceptor = Arc::new(Acceptor {
            context: Arc::clone(&context),
            tls: tls.clone(),
            connections: Arc::clone(&connections),
            stop: stopped.clone(),
        });
        let mut server = Self {
            tasks: JoinSet::new(),
            addresses: Vec::new(),
            metrics: None,
            is_secure: tls.is_some(),
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
            warnings,
        };
        for address in &settings.listen {
            let (listener, address) = server.listen(*address)?;
            settings.network.apply(&listener)?;
            server.addresses.push(address);
            server.tasks.spawn_on(Arc::clone(&acceptor).serve(listener), server.runtime.handle());
        }
        if let Some((address, stats)) = settings.metrics.zip(stats) {
            let (listener, address) = server.listen(address)?;
            server.metrics = Some(address);
            let admin = Arc::new(AdminServer {
                context,
                stats,
                tls: tls.clone(),
                stop: stopped,
                urls: server.urls(),
                connections,
                began: Instant::now(),
            });
            server.runtime.spawn(Arc::clone(&admin).serve(listener));
            server.runtime.spawn(admin.sample());
        }
        if let Some(tls) = tls {
            server.runtime.spawn(reload_certificates(tls));
        }
        Ok(server)
    }

    fn listen(&self, address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
        let _inside = self.runtime.enter();
        let listener = listen(address)?;
        let address = listener
            .local_addr()
            .map_err(|error| local("cannot read the address of a listening socket", error))?;
        Ok((listener, address))
    }

    /// The addresses on which the server listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The URLs of those addresses.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.is_secure { "https" } else { "http" };
        self.addresses.iter().map(|address| format!("{scheme}://{address}/")).collect()
    }

    /// The address of metrics, health and the status page, if the server has them.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// The warnings about the settings with which the server has started, one line each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// A handle that changes the settings of the running server.
    #[must_use]
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// A handle that stops the server.
    #[must_use]
    pub fn stopper(&self) -> ShutdownHandle {
        self.stop.clone()
    }

    /// Stops the server when this process gets a SIGTERM.
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

    /// Runs `work` after each SIGHUP to this process, one run at a time, on a thread that may
    /// block.
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

    /// Runs `work` on the threads of the server, until it ends or the server does.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Runs `work`, which must not block, when the server stops; [`Server::wait`] waits for it.
    pub fn when_stopped(&mut self, work: impl FnOnce() + Send + 'static) {
        let mut stop = self.stop.0.subscribe();
        let work = async move {
            if stop.wait_for(|stop| *stop).await.is_ok() {
                work();
            }
        };
        self.tasks.spawn_on(work, self.runtime.handle());
    }

    fn signals(&self, kind: SignalKind, name: &str) -> Result<Signal> {
        let _inside = self.runtime.enter();
        signal(kind).map_err(|error| local(&format!("cannot watch for {name}"), error))
    }

    /// Waits until the server was stopped and active requests have ended, or have used up the time
    /// in the settings.
    pub fn wait(mut self) {
        self.runtime.block_on(async { while self.tasks.join_next().await.is_some() {} });
        // Requests that are still active are cancelled, and logged as such.
        self.runtime.shutdown_timeout(MAX_THREAD_WAIT);
        self.log.flush();
    }
}

/// Opens the tape system of the settings, with its helper.
/// Fails for settings that only the server of a directory can have.
fn check_without_directory(settings: &Settings) -> Result<()> {
    let key = match (&settings.lots, &settings.tape) {
        (Some(_), _) => "lots",
        (_, Some(_)) => "tape",
        _ => return Ok(()),
    };
    let what = format!("[{key}] cannot be used with another backend than a directory");
    Err(Error::new(ErrorKind::Invalid, what))
}

fn open_tape(
    settings: &Settings,
    helper: Option<TapeHelper>,
    runtime: &Runtime,
) -> Result<Option<Arc<TapeDoor>>> {
    let Some(tape) = settings.tape.clone() else { return Ok(None) };
    let helper = helper.ok_or_else(|| {
        let what = "[tape] needs its helper, which the program has to start first";
        Error::new(ErrorKind::Invalid, what)
    })?;
    let _inside = runtime.enter();
    TapeDoor::new(tape, helper).map(Some)
}

/// Loads certificates that have changed.
async fn reload_certificates(tls: Arc<CertificateReloader>) {
    let mut tick = tokio::time::interval(tls::LOOK_EVERY);
    loop {
        tick.tick().await;
        let tls = Arc::clone(&tls);
        drop(tokio::task::spawn_blocking(move || tls.refresh()).await);
    }
}

/// Removes files that uploads left behind: now, once a day, and more often while space is short.
async fn remove_stale(disk: DiskBackend, unfinished: Duration) {
    let mut tick = tokio::time::interval(SPACE_INTERVAL);
    // Hidden files of a killed server may be removed if no other server uses this directory.
    let own = disk.own_it();
    let mut private = own.is_some().then(SystemTime::now);
    let mut next = Instant::now();
    loop {
        tick.tick().await;
        let is_short = disk.probe().await.is_ok_and(|space| space.is_some_and(cleanup::is_short));
        if !is_short && Instant::now() < next {
            continue;
        }
        next = Instant::now() + CLEANUP_INTERVAL;
        let age = cleanup::unfinished_age(is_short, unfinished);
        let unfinished = SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH);
        let ages = CleanupAges { private: private.take(), unfinished };
        // An error is retried the next time.
        drop(disk.remove_stale(ages).await);
    }
}

/// Ends expired leases of lots.
async fn tend(lots: Arc<Lots>) {
    let mut tick = tokio::time::interval(TEND_EVERY);
    loop {
        tick.tick().await;
        let lots = Arc::clone(&lots);
        // An error is retried the next time.
        drop(tokio::task::spawn_blocking(move || lots.tend(seconds())).await);
    }
}

fn runtime(disk_threads: usize) -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .thread_name("hither-serve")
        .max_blocking_threads(disk::threads(disk_threads))
        .enable_all()
        .build()
        .map_err(|error| local("cannot start the server's threads", error))
}

fn local(what: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Local, what).with_source(error)
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
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

/// Raises the limit of open files of the process as far as the administrator allows: a connection
/// and the file sent on it need two.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Without the permission, fewer connections are possible.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

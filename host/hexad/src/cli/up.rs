//! `hexad up`: serves an application until a signal stops it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytesize::ByteSize;
use clap::Args;
use hexad_host::host::{Host, HostOptions};
use hexad_limits::anonymous_work::WorkLimits;
use hexad_manifest::{self as manifest, MaintenanceTokens};
use hexad_runtime::acceptor;
use hexad_runtime::engine::Runtime;
use hexad_runtime::ingress::{Ingress, IngressOptions};
use hexad_support::memory;
use hexad_trace::Export;
use listenfd::ListenFd;
use socket2::SockRef;

use super::bundle::Bundle;
use super::ingress::IngressArgs;
use super::log::LogOptions;
use super::policy::PolicyArgs;
use super::reload::{ManifestSource, Reloads};
use super::secrets::{self, SecretArgs, SecretValues};
use super::service_manager::{self, ServiceState};
use super::signals::{Signals, StopRequest};
use super::store::StoreArgs;
use super::terminal::announce;
use super::values::{parse_address, parse_external_url, parse_period, parse_rare_period, parse_threads};
use super::{admin, code_folder, descriptors};

/// How long the last steps after the grace period may take, such as exporting spans and answering operators.
const LAST_STEPS: Duration = Duration::from_secs(4);

/// How long the last line of the log may take.
const LAST_LOG: Duration = Duration::from_secs(1);

/// The maximum of simultaneous connections of the process to itself.
const OWN_CONNECTIONS: usize = 8;

/// Serve the application of a manifest.
#[derive(Args)]
pub struct Up {
    /// The application's manifest [default: spin.toml in this folder, or else the application that the program
    /// carries]. SIGHUP reads it again: routes, limits, variables and grants.
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,

    /// A manifest whose components are added to the application; can be repeated. Its ids, routes, variables and key
    /// prefixes must not meet the application's.
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,

    /// The address to listen on, such as :8080 for every IPv4 address; port 0 takes a free one. If a supervisor passes sockets (LISTEN_FDS), the host uses
    /// them instead.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS", value_parser = parse_address)]
    listen: SocketAddr,

    #[command(flatten)]
    ingress: IngressArgs,

    /// The address of the operator's listener (`hexad swap`, `hexad status`, metrics). Commands find it through the
    /// data folder. Keep it on the loopback interface.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS", value_parser = parse_address)]
    admin: SocketAddr,

    /// Swap in a component whenever its source changes; for development.
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    policy: PolicyArgs,

    /// The folder for the store and for compiled code.
    #[arg(long, default_value = "data", value_name = "FOLDER")]
    data: PathBuf,

    /// The URL under which clients reach this host, if it is not the address to listen on.
    #[arg(long, value_name = "URL", value_parser = parse_external_url)]
    external_url: Option<String>,

    /// Certificates (PEM) of authorities that components' outbound requests trust, besides the
    /// system's.
    #[arg(long, value_name = "FILE")]
    outbound_ca: Option<PathBuf>,

    /// The memory for caches, responses that wait for their clients, and components together [default: three quarters
    /// of the machine's or container's].
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    /// How many threads serve requests [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,

    /// A former flag without effect. The next release does not take it.
    #[arg(long = "busy-poll", hide = true, value_name = "TIME")]
    _busy_poll: Option<String>,

    /// How often the host runs the manifest's maintenance, such as the removal of unreachable data; 0 is never
    /// [default: the periods of the manifest].
    #[arg(long, alias = "gc-every", value_name = "TIME", value_parser = parse_rare_period)]
    maintenance_every: Option<Duration>,

    /// How much processor time per minute components may use for clients of one address (IPv6: /64 network) without an
    /// accepted credential; 0 is no limit.
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = parse_period)]
    anonymous_cpu_time: Duration,

    /// How many bytes per minute components may read and write in the store for the same clients; 0 is no limit.
    #[arg(long, default_value = "8GiB", value_name = "SIZE")]
    anonymous_store_bytes: ByteSize,

    /// Replace the keys that the host has generated for variables of the manifest (`generate`). Data that was sealed
    /// with the previous key stays readable until the next rotation.
    #[arg(long)]
    rotate_secrets: bool,

    /// How long writes that no response waits for may stay in memory. If the host is killed, it loses them; they were
    /// not acknowledged.
    #[arg(long, alias = "flush-after", default_value = "20ms", value_name = "TIME", value_parser = parse_period)]
    commit_interval: Duration,

    /// When a signal stops the host, how long requests under way, and components' work after their responses, may take.
    /// A second signal ends the host at once.
    #[arg(long, default_value = "25s", value_name = "TIME", value_parser = parse_period)]
    grace: Duration,

    /// How long the host goes on serving after the signal to stop, while `/readyz` answers 503, so that load balancers
    /// notice.
    #[arg(long, default_value = "0", value_name = "TIME", value_parser = parse_period)]
    drain_delay: Duration,

    /// Give metrics the names that they had before 0.2. The next release has no such flag.
    #[arg(long)]
    old_metric_names: bool,

    /// Let the system write a core dump if the host crashes. The dump contains tokens and keys.
    #[arg(long)]
    core_dumps: bool,

    #[command(flatten)]
    secrets: SecretArgs,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    log: LogOptions,
}

/// The URLs of an application that serves.
pub struct Serving {
    /// For people.
    pub public_url: String,
    /// Under this URL, the process itself reaches the application without TLS.
    pub plain_url: Result<String>,
}

impl Up {
    /// The values of variables.
    pub fn secrets(&self) -> Result<SecretValues> {
        self.secrets.read()
    }

    /// Serves until a signal stops it. Once the host serves clients, another thread calls `started`.
    pub fn run(self, secrets: SecretValues, started: Option<impl FnOnce(Serving) + Send + 'static>) -> Result<()> {
        let began = Instant::now();
        self.log.init()?;
        if !self.core_dumps {
            secrets::forbid_core_dumps();
        }
        let admin_token = admin::checked_token(secrets.get(admin::TOKEN_VARIABLE))?;
        let values = Arc::new(secrets);
        let environment = values.clone();
        let (path, runtime) = self.application()?;
        for added in &self.with {
            tracing::info!(manifest = %added.display(), "adding the components of this manifest");
        }
        let source = ManifestSource {
            path,
            added: self.with.clone(),
            environment: Box::new(move |name: &str| environment.get(name)),
            external_url: self.external_url.clone(),
            maintenance_every: self.maintenance_every,
            maintenance_tokens: MaintenanceTokens::default(),
        };
        let manifest = source.load()?;
        values.check_all_read()?;
        let runtime = runtime.map_or_else(|| self.runtime(), Ok)?;
        let mut ingress = self.ingress.options()?;
        let mut options = self.options(ingress.send.total)?;
        descriptors::fit(&mut ingress, &mut options, manifest.components.len())?;
        let ingress = Arc::new(Ingress::new(ingress)?);
        let mut signals = Signals::catch()?;
        // Listens before the store is opened, so that an address in use is found at once.
        let listeners = listeners(self.listen)?;
        // Compiling components that are not in the code cache can take long.
        let mut host = signals.watch_during(leave_before_ready, || Host::start(&runtime, manifest, &options))?;
        let mut addresses = Vec::with_capacity(listeners.len());
        for listener in listeners {
            addresses.push(host.serve(listener, ingress.clone())?);
        }
        let address = *addresses.first().context("LISTEN_FDS passes no socket to listen on")?;
        host.maintain()?;
        let admin = host.administer(self.admin, admin_token).map_err(|error| {
            anyhow!("cannot listen on {}: {error}; choose another address with --admin", self.admin)
        })?;
        let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(%address, admin = admin.url, threads = options.threads, milliseconds, "serving");
        memory::release_free_memory();
        // Programs that start this one read the address from this line.
        for address in &addresses {
            announce(&format!("listening on {}://{address}\n", ingress.scheme()));
        }
        if let Some(started) = started {
            let listening_url = format!("{}://{address}", ingress.scheme());
            let public_url = self.external_url.clone().unwrap_or(listening_url);
            let plain_url = plain_address(&mut host, &ingress, address).map(|address| format!("http://{address}"));
            let started = move || started(Serving { public_url, plain_url });
            std::thread::Builder::new().name("started".to_owned()).spawn(started)?;
        }
        let reloads = Reloads::start(source, host.reloader(), ingress.clone())?;

        service_manager::notify(ServiceState::Ready);

        let request = signals.wait(|| reloads.begin());
        self.stop((host, ingress), (request, Instant::now()), &mut signals)
    }

    fn runtime(&self) -> Result<Arc<Runtime>> {
        Ok(Runtime::new(Some(code_folder(&self.data)))?)
    }

    /// The manifest, and a runtime that has taken the code of its components from the program.
    fn application(&self) -> Result<(PathBuf, Option<Arc<Runtime>>)> {
        if let Some(path) = &self.manifest {
            return Ok((path.clone(), None));
        }
        let path = PathBuf::from(manifest::FILE_NAME);
        let is_added = |path: &Path| {
            path.canonicalize()
                .is_ok_and(|path| self.with.iter().any(|with| with.canonicalize().is_ok_and(|with| with == path)))
        };
        let is_served = path.exists() && !is_added(&path);
        let bundle = Bundle::of_this_program().context("cannot read the file of this program")?;
        ensure!(
            self.with.is_empty() || is_served || bundle.is_some(),
            "there is nothing to add --with to: this program carries no application; name one with --manifest"
        );
        match bundle.filter(|_| !is_served) {
            Some(bundle) => {
                let runtime = self.runtime()?;
                let path = bundle.unpack(&self.data, &runtime)?;
                tracing::info!(manifest = %path.display(), "serving the application that this program carries");
                Ok((path, Some(runtime)))
            }
            None => {
                if is_served {
                    tracing::info!(manifest = %path.display(), "serving the application of this folder");
                }
                Ok((path, None))
            }
        }
    }

    /// Stops the host after a signal that came at `since`. A second signal, or a stop that takes too long, ends the
    /// process at once.
    fn stop(
        &self,
        (host, ingress): (Host, Arc<Ingress>),
        (request, since): (StopRequest, Instant),
        signals: &mut Signals,
    ) -> Result<()> {
        let (sender, stopped) = tokio::sync::oneshot::channel();
        let (drain_delay, grace) = (self.drain_delay, self.grace);
        // All times count from the signal.
        let left = move |time: Duration| time.saturating_sub(since.elapsed());
        // On another thread, because the stop blocks, and the log may. This thread only waits for signals.
        std::thread::Builder::new().name("stop".to_owned()).spawn(move || {
            host.drain();
            service_manager::notify(ServiceState::Stopping);
            tracing::info!(
                signal = request.name(),
                "stopping; requests under way may finish, a second signal ends at once"
            );
            std::thread::sleep(left(drain_delay));
            host.stop(left(drain_delay + grace));
            // Closed here, because a reload of certificates may hold the last reference.
            if let Some(log) = &ingress.access_log {
                log.close();
            }
            tracing::info!("stopped");
            let _ = sender.send(());
        })?;
        match signals.wait_unless_repeated(stopped, left(drain_delay + grace + LAST_STEPS)) {
            // The sender is dropped if the thread panics.
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => leave_late(),
            Err(repeated) => leave_at_once(repeated),
        }
    }

    fn options(&self, send_buffer: usize) -> Result<HostOptions> {
        let mut options = HostOptions::new(self.data.clone());
        options.anonymous_work =
            WorkLimits { cpu_time: self.anonymous_cpu_time, store_bytes: self.anonymous_store_bytes.0 };
        options.rotate_secrets = self.rotate_secrets;
        options.old_metric_names = self.old_metric_names;
        options.outbound.authority = self.outbound_ca.clone();
        if let Some(threads) = self.threads {
            options.threads = threads;
        }
        options.store.batch_age = self.commit_interval;
        options.memory = self.memory.map(|size| size.0);
        options.send_buffer = send_buffer;
        options.postgres = self.store.options()?;
        options.watch = self.watch;
        options.traces = Export::from_environment();
        options.policy = self.policy.policy();
        Ok(options)
    }
}

/// An address of the application without TLS.
fn plain_address(host: &mut Host, ingress: &Ingress, address: SocketAddr) -> Result<SocketAddr> {
    if ingress.certificates.is_none() {
        return Ok(address);
    }
    // No certificate is valid for the loopback address.
    let listener = acceptor::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let options = IngressOptions { connections: OWN_CONNECTIONS, ..IngressOptions::default() };
    Ok(host.serve(listener, Arc::new(Ingress::new(options)?))?)
}

/// Ends the process at once: it serves no clients yet, and its store survives that.
fn leave_before_ready(request: StopRequest) {
    exit_after(move || tracing::info!(signal = request.name(), "stopped before the host was ready"), 0)
}

fn leave_late() -> ! {
    let log = || tracing::error!("ended before everything was closed: a file, or the store, takes longer than --grace");
    exit_after(log, 1)
}

fn leave_at_once(repeated: StopRequest) -> ! {
    let signal = repeated.name();
    let log = move || tracing::warn!(signal, "ended by a second signal; requests under way were broken off");
    exit_after(log, repeated.exit_status())
}

/// The sockets that the service manager passes, or else a new one.
fn listeners(address: SocketAddr) -> Result<Vec<TcpListener>> {
    let mut passed_on = ListenFd::from_env();
    if passed_on.len() == 0 {
        let listener = acceptor::bind(address)
            .map_err(|error| anyhow!("cannot listen on {address}: {error}; choose another address with --listen"))?;
        return Ok(vec![listener]);
    }
    let mut listeners = Vec::with_capacity(passed_on.len());
    for index in 0..passed_on.len() {
        let taken = passed_on.take_tcp_listener(index);
        let taken = taken.with_context(|| format!("the socket {index} of LISTEN_FDS is not a TCP listener"))?;
        if let Some(listener) = taken {
            check_listening(&listener, index)?;
            listeners.push(listener);
        }
    }
    Ok(listeners)
}

/// Fails if the socket is only bound. Such a socket accepts no connection and reports no clear error.
fn check_listening(socket: &TcpListener, index: usize) -> Result<()> {
    if SockRef::from(socket).is_listener()? {
        return Ok(());
    }
    bail!(
        "the socket {index} of LISTEN_FDS does not listen; the program that starts the host has to call listen() first, \
         as systemd does for its socket units"
    )
}

/// Ends the process after `log`, or after [`LAST_LOG`] if standard error is a pipe that no program reads.
fn exit_after(log: impl FnOnce() + Send + 'static, status: i32) -> ! {
    let (logged, is_logged) = std::sync::mpsc::channel();
    let logging = std::thread::Builder::new().name("last-log".to_owned()).spawn(move || {
        log();
        let _ = logged.send(());
    });
    if logging.is_ok() {
        let _ = is_logged.recv_timeout(LAST_LOG);
    }
    std::process::exit(status)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use socket2::{Domain, Socket, Type};

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        up: Up,
    }

    #[test]
    fn former_flags_are_accepted() {
        let of = |arguments: [&str; 2]| Program::try_parse_from(["hexad"].into_iter().chain(arguments)).unwrap().up;
        assert_eq!(of(["--gc-every", "1h"]).maintenance_every, Some(Duration::from_secs(3600)));
        assert_eq!(of(["--flush-after", "1ms"]).commit_interval, Duration::from_millis(1));
        for value in ["0", "50us"] {
            of(["--busy-poll", value]);
        }
    }

    #[test]
    fn a_socket_that_does_not_listen_is_refused() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let listener = TcpListener::from(socket.try_clone().unwrap());
        let error = check_listening(&listener, 1).unwrap_err().to_string();
        assert!(error.starts_with("the socket 1 of LISTEN_FDS does not listen; "), "{error}");
        socket.listen(1).unwrap();
        check_listening(&listener, 1).unwrap();
    }
}

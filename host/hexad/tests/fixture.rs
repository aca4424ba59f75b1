//! A host with the probe guest, in a temporary directory.

use crate::*;
use hexad::manifest::{LoadOptions, MaintenanceTokens, ManifestError};
use hexad::store::postgres::{Passwords, PostgresOptions, StoreUrl};
use hexad::trace::Export;
use hexad::{Manifest, Runtime};
use hexad_testing::wait::OF_CONNECTIONS;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::LazyLock;

pub use hexad_testing::databases;

/// One engine for all tests, so that each guest is compiled once.
static RUNTIME: LazyLock<Arc<Runtime>> = LazyLock::new(|| {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("code");
    Runtime::new(Some(cache)).unwrap()
});

/// The built guest of that name.
pub fn guest(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../dist/fixtures/{name}.wasm"));
    assert!(path.exists(), "{} is not built; run `make fixtures` first", path.display());
    path
}

/// A manifest with the probe at `/probe/...` and the lines of `tool` in its `tool.hexad` table.
pub fn manifest(tool: &str) -> String {
    let probe = guest("probe");
    let incoming = guest("incoming");
    format!(
        r#"
        spin_manifest_version = 2
        application = {{ name = "test" }}
        [variables]
        check = {{ default = "" }}
        external_url = {{ default = "none" }}
        [[trigger.http]]
        route = "/probe/..."
        component = "probe"
        [[trigger.http]]
        route = "/incoming"
        component = "incoming"
        [component.incoming]
        source = {incoming:?}
        key_value_stores = ["elsewhere"]
        allowed_outbound_hosts = []
        [component.probe]
        source = {probe:?}
        key_value_stores = ["default"]
        allowed_outbound_hosts = []
        variables = {{ check = "{{{{ check }}}}", external_url = "{{{{ external_url }}}}" }}
        [component.probe.tool.hexad]
        {tool}
        "#
    )
}

/// The same; its components may send requests to `hosts`.
pub fn granting(hosts: &[&str], tool: &str) -> String {
    manifest(tool).replace("allowed_outbound_hosts = []", &format!("allowed_outbound_hosts = {hosts:?}"))
}

/// A host, its directory, and short ways to send it requests.
pub struct Server {
    pub host: Host,
    pub folder: TempDir,
}

impl Server {
    /// The probe, with `tool` in its `tool.hexad` table.
    pub fn with(tool: &str) -> Self {
        Self::of(&manifest(tool), |options| options)
    }

    /// The same with another manifest, and with options that `change` has changed.
    pub fn of(manifest: &str, change: impl FnOnce(HostOptions) -> HostOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = start_with(&folder, manifest, &[], &change(options(&folder, store()))).unwrap();
        Self { host, folder }
    }

    /// The probe on a folder that may have a store already.
    pub fn over(folder: TempDir, tool: &str, store: sqlite::SqliteOptions) -> Self {
        let host = start(&folder, &manifest(tool), &[], store).unwrap();
        Self { host, folder }
    }

    /// The probe; at most this many instances may be stalled.
    pub fn with_stalled(tool: &str, stalled_instances: usize) -> Self {
        Self::of(&manifest(tool), |options| HostOptions { stalled_instances, ..options })
    }

    /// The probe on two threads.
    pub fn on_two_threads() -> Self {
        Self::of(&manifest(""), |options| HostOptions { threads: NonZeroUsize::new(2).unwrap(), ..options })
    }

    /// The probe and the guest of the 0.2 interface, which may send requests to `hosts`.
    pub fn reaching(hosts: &[&str], tool: &str, outbound: OutboundOptions) -> Self {
        Self::of(&granting(hosts, tool), |options| HostOptions { outbound, ..options })
    }

    /// The same on a host that sends its traces to a collector.
    pub fn traced(collector: &str, hosts: &[&str], tool: &str) -> Self {
        Self::of(&granting(hosts, tool), |options| HostOptions { traces: Some(Export::to(collector)), ..options })
    }

    pub fn service(&self, id: &str) -> &ComponentService {
        self.host.services().iter().find(|service| service.id() == id).unwrap()
    }

    /// Begins to listen for the operator.
    pub fn administer(&mut self) -> AdminAccess {
        self.host.administer("127.0.0.1:0".parse().unwrap(), None).unwrap()
    }

    pub async fn send(&self, request: Request<Full<Bytes>>) -> Response<ResponseBody> {
        self.host.handle(request).await
    }

    /// Status and body of a GET of the probe.
    pub async fn get(&self, path: &str) -> (u16, String) {
        text(self.send(get(path)).await).await
    }

    /// The body of a GET of the probe that must succeed.
    pub async fn ok(&self, path: &str) -> String {
        let (status, body) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub fn listen(&mut self) -> SocketAddr {
        self.host.listen("127.0.0.1:0".parse().unwrap()).unwrap()
    }
}

/// A store that ends a transaction only when a request waits for it, so that commits can be counted.
pub fn store() -> sqlite::SqliteOptions {
    sqlite::SqliteOptions { batch_age: Duration::from_secs(60), ..sqlite::SqliteOptions::default() }
}

/// A client for which every status is an answer. Each of its waits has a deadline.
pub fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
    config.timeout_global(Some(OF_CONNECTIONS)).build().into()
}

/// Starts a host on one thread, on the manifest given as text.
pub fn start(
    folder: &TempDir,
    manifest: &str,
    environment: &[(&str, &str)],
    store: sqlite::SqliteOptions,
) -> Result<Host, StartError> {
    start_with(folder, manifest, environment, &options(folder, store))
}

pub fn options(folder: &TempDir, store: sqlite::SqliteOptions) -> HostOptions {
    let data = folder.path().join("data");
    let postgres = databases::url_of(&data).map(|url| {
        let url = StoreUrl::parse(&url, &Passwords::default()).unwrap();
        PostgresOptions::new(url, 4, Duration::ZERO)
    });
    HostOptions { threads: NonZeroUsize::MIN, store, postgres, ..HostOptions::new(data) }
}

pub fn start_with(
    folder: &TempDir,
    manifest: &str,
    environment: &[(&str, &str)],
    options: &HostOptions,
) -> Result<Host, StartError> {
    Host::start(&RUNTIME, load(folder, manifest, environment, None).unwrap(), options)
}

/// Reads the manifest given as text; `maintenance_every` replaces its periods.
pub fn load(
    folder: &TempDir,
    manifest: &str,
    environment: &[(&str, &str)],
    maintenance_every: Option<Duration>,
) -> Result<Manifest, ManifestError> {
    let path = folder.path().join("spin.toml");
    std::fs::write(&path, manifest).unwrap();
    let environment = |name: &str| {
        let pair = environment.iter().find(|(key, _)| *key == name);
        pair.map(|(_, value)| (*value).to_owned())
    };
    let maintenance_tokens = &MaintenanceTokens::default();
    let options = LoadOptions { environment: &environment, external_url: None, maintenance_every, maintenance_tokens };
    Manifest::load_with(&path, &options)
}

/// Starts a host with the maintenance that the manifest asks for.
pub fn maintained(folder: &TempDir, manifest: Manifest) -> Host {
    let host = Host::start(&RUNTIME, manifest, &options(folder, store())).unwrap();
    host.maintain().unwrap();
    host
}

pub fn get(path: &str) -> Request<Full<Bytes>> {
    request("GET", path, Bytes::new())
}

pub fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let uri = format!("/probe/{path}");
    Request::builder().method(method).uri(uri).header("host", "forge.test").body(Full::new(body.into())).unwrap()
}

pub async fn text(response: Response<ResponseBody>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

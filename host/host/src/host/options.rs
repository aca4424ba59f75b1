//! The options of a host, and why a host does not start.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use hexad_admin::ConnectionBounds;
use hexad_deploy::TrustPolicy;
use hexad_http::send_buffer::SendLimits;
use hexad_imports::outbound::OutboundOptions;
use hexad_limits::anonymous_work::WorkLimits;
use hexad_limits::instance_permit::STALLED_INSTANCES;
use hexad_store_postgres as postgres;
use hexad_store_sqlite as sqlite;
use hexad_trace::Export;

/// The options of a host.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The data directory. The host makes it if it is missing, and locks it.
    pub data: PathBuf,
    /// The number of shards, each a thread.
    pub threads: NonZeroUsize,
    pub store: sqlite::SqliteOptions,
    /// The store on PostgreSQL. `None` for SQLite in the data directory.
    pub postgres: Option<postgres::PostgresOptions>,
    pub outbound: OutboundOptions,
    /// Whether the host swaps a component in whenever the manifest's source of it changes.
    pub watch: bool,
    /// The collector of traces. `None` for no traces.
    pub traces: Option<Export>,
    /// Decides which components may be served.
    pub policy: TrustPolicy,
    /// Whether the host works for a command such as `hexad fsck`. Then it leaves the deployment records in the folder
    /// as they are.
    pub is_temporary: bool,
    /// Whether, from this start on, the next key of each secret that the host has drawn comes first.
    pub rotate_secrets: bool,
    /// The memory of caches, responses and guests together, in bytes. `None` stands for three quarters of the
    /// machine's.
    pub memory: Option<u64>,
    /// Limits on components' work for the clients of a network without an accepted credential.
    pub anonymous_work: WorkLimits,
    /// The part of `memory` for responses that clients have not taken, in bytes.
    pub send_buffer: usize,
    /// How many instances of all components may be stalled. A stalled instance waits for its client, and does not count
    /// in its component's limit.
    pub stalled_instances: usize,
    /// The connections of the admin listener.
    pub admin_connections: ConnectionBounds,
    /// Metrics have the names of the release before.
    pub old_metric_names: bool,
}

impl HostOptions {
    /// The defaults: a thread for each processor.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            store: sqlite::SqliteOptions::default(),
            postgres: None,
            outbound: OutboundOptions::default(),
            watch: false,
            traces: None,
            policy: TrustPolicy::default(),
            is_temporary: false,
            rotate_secrets: false,
            memory: None,
            anonymous_work: WorkLimits::default(),
            send_buffer: SendLimits::default().total,
            stalled_instances: STALLED_INSTANCES,
            admin_connections: ConnectionBounds::MOST,
            old_metric_names: false,
        }
    }
}

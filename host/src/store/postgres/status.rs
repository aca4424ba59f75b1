//! The store in the host's status and metrics.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::monitor::{Standby, Warning};
use super::supervisor::ConnectionSupervisor;

/// The status of a store on PostgreSQL, as one host knows it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ServerStatus {
    /// The URL, without a password, and the server in use; `None` without one.
    pub url: String,
    pub server: Option<String>,
    /// Size of the table of values, in bytes.
    #[serde(skip)]
    pub size: u64,
    /// The duration of the last barrier, in seconds.
    pub round_trip: f64,
    /// Since the start: barriers, statements that read, and replacements of all connections.
    pub barriers: u64,
    pub reads: u64,
    pub reconnects: u64,
    pub warnings: Vec<Warning>,
    pub standbys: Vec<Standby>,
}

impl ServerStatus {
    pub fn of(supervisor: &ConnectionSupervisor) -> Self {
        let (figures, findings) = (&supervisor.figures, supervisor.report.findings());
        Self {
            url: supervisor.name().to_owned(),
            server: supervisor.present_link().map(|link| link.server.clone()),
            size: findings.size,
            round_trip: figures.round_trip.load(Ordering::Relaxed) as f64 / 1e6,
            barriers: figures.barriers.load(Ordering::Relaxed),
            reads: figures.reads.load(Ordering::Relaxed),
            reconnects: figures.reconnects.load(Ordering::Relaxed),
            warnings: findings.warnings,
            standbys: findings.standbys,
        }
    }
}

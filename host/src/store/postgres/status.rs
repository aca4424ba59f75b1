//! The store in the host's status and metrics.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::monitor::Warning;
use super::supervisor::ConnectionSupervisor;

/// The status of a store on PostgreSQL, as one host knows it.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// The URL, without a password, and the server in use; `None` without one.
    pub url: String,
    pub server: Option<String>,
    /// Size of the table of values, in bytes.
    pub size: u64,
    /// The duration of the last barrier.
    pub round_trip: Duration,
    /// Since the start: barriers, statements that read, and replacements of all connections.
    pub barriers: u64,
    pub reads: u64,
    pub reconnects: u64,
    pub warnings: Vec<Warning>,
    /// Standbys by name, with the bytes of the log that each has not written yet.
    pub standbys: Vec<(String, u64)>,
}

impl ServerStatus {
    pub fn of(supervisor: &ConnectionSupervisor) -> Self {
        let (figures, findings) = (&supervisor.figures, supervisor.report.findings());
        Self {
            url: supervisor.name().to_owned(),
            server: supervisor.present_link().map(|link| link.server.clone()),
            size: findings.size,
            round_trip: Duration::from_micros(figures.round_trip.load(Ordering::Relaxed)),
            barriers: figures.barriers.load(Ordering::Relaxed),
            reads: figures.reads.load(Ordering::Relaxed),
            reconnects: figures.reconnects.load(Ordering::Relaxed),
            warnings: findings.warnings,
            standbys: findings.standbys,
        }
    }
}

//! Facts about the server for the operator: its size, settings that endanger data, and a wrong clock.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hexad_store::ServerClock;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, Error};

use super::supervisor::ConnectionSupervisor;

/// Settings, each with the only value under which acknowledged data is safe, and the danger of other values.
const SAFE: [(&str, &str, &str); 4] = [
    ("fsync", "on", "a crash of the machine can lose or damage everything"),
    ("full_page_writes", "on", "a crash of the machine can damage pages"),
    ("ignore_checksum_failure", "off", "what is read of a damaged page is believed"),
    ("zero_damaged_pages", "off", "a damaged page reads as if it were empty, and is lost with the next write to it"),
];

/// How far the clocks of time-synchronized machines may differ.
const SAME_TIME: SignedDuration = SignedDuration::from_secs(10);

/// The findings of the last check of the server.
#[derive(Debug, Default)]
pub struct ServerReport(Mutex<Findings>);

/// A danger to data: a setting of the server, or `clock`. In JSON it is the text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "String", into = "String")]
pub struct Warning {
    pub setting: String,
    /// A sentence that names the setting and the remedy.
    pub text: String,
}

impl From<String> for Warning {
    fn from(text: String) -> Self {
        Self { setting: String::new(), text }
    }
}

impl From<Warning> for String {
    fn from(warning: Warning) -> Self {
        warning.text
    }
}

/// A standby of the server in use.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Standby {
    pub name: String,
    /// Bytes of the log that it has not written yet.
    pub lag: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The size of the table of values, in bytes.
    pub size: u64,
    pub warnings: Vec<Warning>,
    pub standbys: Vec<Standby>,
}

impl ServerReport {
    pub fn findings(&self) -> Findings {
        self.lock().clone()
    }

    /// Checks the server, and logs a warning when it first applies.
    pub async fn update(&self, client: &Client, clock: &ServerClock) -> Result<(), Error> {
        let mut findings = look(client).await?;
        findings.warnings.extend(compare_clocks(clock.machine_ahead()));
        let mut last = self.lock();
        for warning in findings.warnings.iter().filter(|warning| !last.has(&warning.setting)) {
            tracing::warn!(setting = warning.setting, "PostgreSQL: {}", warning.text);
        }
        *last = findings;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Findings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Findings {
    fn has(&self, setting: &str) -> bool {
        self.warnings.iter().any(|warning| warning.setting == setting)
    }
}

/// Guests get the server's time, whatever the host's time is, so no data is lost. But one of the two clocks is wrong.
fn compare_clocks(ahead: SignedDuration) -> Option<Warning> {
    let is_ahead = ahead.is_positive();
    let apart = ahead.abs();
    (apart > SAME_TIME).then(|| {
        let (apart, place) = (SignedDuration::from_secs(apart.as_secs()), if is_ahead { "ahead of" } else { "behind" });
        let text = format!(
            "this host's clock is {apart:#} {place} PostgreSQL's, whose time components have: one of the two is wrong; \
             let a time service set the clocks of both machines"
        );
        Warning { setting: "clock".to_owned(), text }
    })
}

async fn look(client: &Client) -> Result<Findings, Error> {
    let mut warnings = Vec::new();
    for (setting, safe, danger) in SAFE {
        let row = client.query_one("select current_setting($1)", &[&setting]).await?;
        let value: &str = row.try_get(0)?;
        if value != safe {
            let text = format!("{setting} is {value}: {danger}; turn it {safe}");
            warnings.push(Warning { setting: setting.to_owned(), text });
        }
    }
    let row = client
        .query_one("select pg_total_relation_size('hexad.kv'), current_setting('synchronous_standby_names')", &[])
        .await?;
    let (size, synchronous): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
    // A user without the right to see other connections sees their names, but not their state.
    let rows = client
        .query(
            "select coalesce(application_name, ''), coalesce(sync_state, ''),
                    coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn), 0)::bigint
             from pg_stat_replication where state is distinct from 'backup'",
            &[],
        )
        .await?;
    let mut standbys = Vec::with_capacity(rows.len());
    let mut has_synchronous = false;
    for row in &rows {
        let (name, state, lag): (&str, &str, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        has_synchronous |= matches!(state, "sync" | "quorum");
        standbys.push(Standby { name: name.to_owned(), lag: u64::try_from(lag).unwrap_or_default() });
    }
    if !standbys.is_empty() && !has_synchronous && synchronous.is_empty() {
        let setting = "synchronous_standby_names";
        let text = format!("no standby is synchronous: a failover can lose acknowledged writes; set {setting}");
        warnings.push(Warning { setting: setting.to_owned(), text });
    }
    Ok(Findings { size: u64::try_from(size).unwrap_or_default(), warnings, standbys })
}

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

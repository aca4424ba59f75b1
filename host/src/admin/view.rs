//! What the admin listener shows of components, as JSON.

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use serde::Serialize;

use super::figures::Figures;
use crate::component::{Canary, Generation, Health, Slot};
use crate::digest::Digest;

/// A component as it is served now.
#[derive(Debug, Serialize)]
pub struct Component {
    pub id: String,
    /// `serving`; `canary` while a new generation is on trial; `failing` while the present one is
    /// not asked because it failed too often.
    pub state: &'static str,
    #[serde(flatten)]
    pub current: Served,
    /// What a rollback leads to.
    pub previous: Option<Digest>,
    pub canary: Option<Trial>,
    pub source: String,
    pub grants: Grants,
    pub limits: Limits,
    pub in_flight: usize,
    pub waiting: usize,
    pub figures: Figures,
}

/// A generation.
#[derive(Debug, Serialize)]
pub struct Served {
    /// None for a component that is no area.
    pub area: Option<String>,
    pub version: Option<String>,
    pub digest: Digest,
    pub generation: u64,
    pub loaded_at: Option<String>,
}

/// A canary, and how it does.
#[derive(Debug, Serialize)]
pub struct Trial {
    #[serde(flatten)]
    pub served: Served,
    pub percent: f64,
    pub answers: u64,
    pub failed: u64,
    pub seconds_left: f64,
}

/// What the manifest allows.
#[derive(Debug, Serialize)]
pub struct Grants {
    pub key_value_stores: Vec<String>,
    pub read: Vec<String>,
    pub write: Vec<String>,
    /// Accesses that were refused since the start.
    pub denied: u64,
}

/// The bounds in force; times in seconds, sizes in bytes.
#[derive(Debug, Serialize)]
pub struct Limits {
    pub memory: usize,
    pub request_timeout: f64,
    pub transfer_timeout: f64,
    pub cpu_time: f64,
    pub max_body: u64,
    pub max_response: u64,
    pub instances: usize,
    pub queue_timeout: f64,
    /// Lines in a second.
    pub log_lines: u32,
}

impl From<&Slot> for Component {
    fn from(slot: &Slot) -> Self {
        let component = slot.component();
        let deployment = slot.deployment();
        let (in_flight, waiting) = slot.load();
        let (grants, limits) = (&component.grants, &component.limits);
        Self {
            id: component.id.clone(),
            state: match deployment.current.health() {
                Health::Healthy if deployment.canary.is_some() => "canary",
                Health::Healthy => "serving",
                Health::Recovering | Health::Failing => "failing",
            },
            current: Served::from(&*deployment.current),
            previous: deployment.previous.as_ref().map(|previous| previous.digest),
            canary: deployment.canary.as_deref().map(Trial::from),
            source: component.source.display().to_string(),
            grants: Grants {
                key_value_stores: grants.labels().map(str::to_owned).collect(),
                read: grants.readable().to_vec(),
                write: grants.writable().to_vec(),
                denied: grants.denied(),
            },
            limits: Limits {
                memory: limits.memory,
                request_timeout: limits.request_timeout.as_secs_f64(),
                transfer_timeout: limits.transfer_timeout.as_secs_f64(),
                cpu_time: limits.cpu_time.as_secs_f64(),
                max_body: limits.max_body,
                max_response: limits.max_response,
                instances: limits.instances,
                queue_timeout: limits.queue_timeout.as_secs_f64(),
                log_lines: limits.log_lines,
            },
            in_flight,
            waiting,
            figures: Figures::from(slot),
        }
    }
}

impl From<&Generation> for Served {
    fn from(generation: &Generation) -> Self {
        let description = generation.description.as_ref();
        Self {
            area: description.map(|area| area.area.clone()),
            version: description.map(|area| area.version.clone()),
            digest: generation.digest,
            generation: generation.number,
            loaded_at: timestamp(generation.loaded_at),
        }
    }
}

impl From<&Canary> for Trial {
    fn from(canary: &Canary) -> Self {
        let left: Duration = canary.ends_at().saturating_duration_since(Instant::now());
        Self {
            served: Served::from(&*canary.generation),
            percent: canary.policy.percent,
            answers: canary.tally.responses(),
            failed: canary.tally.failed(),
            seconds_left: left.as_secs_f64(),
        }
    }
}

fn timestamp(time: SystemTime) -> Option<String> {
    Some(Timestamp::try_from(time).ok()?.to_string())
}

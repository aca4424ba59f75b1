//! The state that all requests to the admin listener share.

use std::sync::Arc;

use super::access::TokenVerifier;
use super::deployment::{self, DeploymentFailure, DeploymentThreads};
use super::history::{History, Sample};
use super::host_state::HostState;
use super::sessions::Sessions;
use crate::deploy::{DeployError, DeployReport, Deployer};
use crate::memory_budget::MemoryBudget;
use crate::serving_threads::ServingThreads;
use crate::store::StoreHealth;

/// Reads the present state of the host.
pub type HostStateReader = Box<dyn Fn() -> HostState + Send + Sync>;

/// The listener's access to the host, and its own state.
pub struct AdminContext {
    pub verifier: TokenVerifier,
    pub deployer: Arc<Deployer>,
    pub deployment_threads: DeploymentThreads,
    pub host_state: HostStateReader,
    pub store_health: Arc<StoreHealth>,
    pub threads: ServingThreads,
    pub history: History,
    pub sessions: Sessions,
    /// Whether metrics have the names of the previous release.
    pub old_metric_names: bool,
}

impl AdminContext {
    /// Runs a deployment that an operator asks for.
    pub async fn deploy(
        &self,
        deployment: impl FnOnce(&Deployer) -> Result<DeployReport, DeployError> + Send + 'static,
    ) -> Result<DeployReport, DeploymentFailure> {
        deployment::run(&self.deployment_threads, self.deployer.clone(), deployment).await
    }

    /// The memory that uploads count in.
    pub fn memory(&self) -> Arc<MemoryBudget> {
        (self.host_state)().memory.budget
    }

    /// The present counts.
    pub fn sample(&self) -> Sample {
        let guests = (self.host_state)().memory.budget.used();
        Sample::take(self.deployer.application().services(), guests)
    }
}

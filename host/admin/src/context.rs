//! The state that all requests to the admin listener share.

use std::sync::Arc;

use hexad_deploy::{DeployError, DeployReport, Deployer};

use super::access::TokenVerifier;
use super::deployment::{self, DeploymentFailure, DeploymentThreads};
use super::history::{History, Sample};
use super::host_status::HostStatusReader;
use super::sessions::Sessions;

/// The listener's access to the host, and its own state.
pub struct AdminContext {
    pub verifier: TokenVerifier,
    pub host: HostStatusReader,
    pub deployment_threads: DeploymentThreads,
    pub history: History,
    pub sessions: Sessions,
    /// Whether metrics have the names of the previous release.
    pub old_metric_names: bool,
}

impl AdminContext {
    pub fn deployer(&self) -> &Arc<Deployer> {
        &self.host.deployer
    }

    /// Runs a deployment that an operator asks for.
    pub async fn deploy(
        &self,
        deployment: impl FnOnce(&Deployer) -> Result<DeployReport, DeployError> + Send + 'static,
    ) -> Result<DeployReport, DeploymentFailure> {
        deployment::run(&self.deployment_threads, self.deployer().clone(), deployment).await
    }

    /// The present counts.
    pub fn sample(&self) -> Sample {
        Sample::take(self.deployer().application().services(), self.host.memory.used())
    }
}

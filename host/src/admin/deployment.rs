//! Deployments that an operator asks for.

use std::sync::Arc;

use http::StatusCode;

use crate::deploy::{DeployError, DeployReport, Deployer};
use crate::store::ErrorKind;

/// Why a deployment did not take place. Each text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum DeploymentFailure {
    #[error(transparent)]
    Refused(#[from] DeployError),
    #[error("the host failed; its log says why")]
    Panicked,
}

impl DeploymentFailure {
    pub fn status(&self) -> StatusCode {
        let Self::Refused(error) = self else { return StatusCode::INTERNAL_SERVER_ERROR };
        match error {
            DeployError::Unknown(_) => StatusCode::NOT_FOUND,
            DeployError::CanaryUnderWay(_) | DeployError::NoCanary(_) | DeployError::NoPrevious(_) => {
                StatusCode::CONFLICT
            }
            DeployError::Untrusted { .. } => StatusCode::FORBIDDEN,
            DeployError::Load(_) => StatusCode::UNPROCESSABLE_ENTITY,
            DeployError::Fleet(_) => StatusCode::CONFLICT,
            DeployError::Store(error) if error.kind() == ErrorKind::Fault => StatusCode::INTERNAL_SERVER_ERROR,
            DeployError::Stopping | DeployError::Store(_) | DeployError::Unconfirmed(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            DeployError::Record(_) | DeployError::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Runs a deployment on another thread, because it blocks.
pub async fn run(
    deployer: &Arc<Deployer>,
    deployment: impl FnOnce(&Deployer) -> Result<DeployReport, DeployError> + Send + 'static,
) -> Result<DeployReport, DeploymentFailure> {
    let deployer = deployer.clone();
    match tokio::task::spawn_blocking(move || deployment(&deployer)).await {
        Ok(outcome) => Ok(outcome?),
        Err(panic) => {
            tracing::error!(%panic, "a deployment panicked");
            Err(DeploymentFailure::Panicked)
        }
    }
}

//! Events for the supervisor of deployments.

use crate::digest::Digest;

#[derive(Debug)]
pub enum DeploymentEvent {
    /// A canary did worse than its policy allows, and serves no further requests. The supervisor must end its trial.
    CanaryFailed {
        component: String,
        digest: Digest,
        reason: String,
    },
    /// A trial began. The supervisor must end it.
    CanaryBegan,
    Stop,
}

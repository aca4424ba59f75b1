//! Events that the supervisor of deployments acts on.

use crate::digest::Digest;

#[derive(Debug)]
pub enum DeploymentEvent {
    /// A canary did worse than its policy allows and serves no requests any more. The supervisor must end its
    /// trial.
    CanaryFailed {
        component: String,
        digest: Digest,
        reason: String,
    },
    /// A trial began; the supervisor must end it.
    CanaryBegan,
    Stop,
}

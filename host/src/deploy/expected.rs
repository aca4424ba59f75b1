//! What was seen of a component before a change, so that a change is not made of something else.

use super::DeployError;
use crate::component::Deployment;
use crate::digest::Digest;

/// What serves a component. A change can be made on the condition that it is still this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub current: Digest,
    /// The component on trial.
    pub canary: Option<Digest>,
}

impl Expected {
    /// What this host serves.
    pub(super) fn of(deployment: &Deployment) -> Self {
        let canary = deployment.canary.as_ref().map(|canary| canary.generation.digest);
        Self { current: deployment.current.digest, canary }
    }

    /// Refuses a change if something is expected and something else is `present`.
    pub(super) fn check(expected: Option<&Self>, component: &str, present: &Self) -> Result<(), DeployError> {
        match expected.is_none_or(|expected| expected == present) {
            true => Ok(()),
            false => Err(DeployError::Changed(component.to_owned())),
        }
    }
}

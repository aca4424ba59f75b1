//! The digests that an operator saw before a change of a component. If they differ by then, the change is refused.

use super::DeployError;
use crate::component::ActiveRevisions;
use crate::digest::Digest;

/// The digests that a service serves. An operator can make a change conditional on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub current: Digest,
    /// The component on trial.
    pub canary: Option<Digest>,
}

impl Expected {
    /// The digests that this host serves.
    pub(super) fn of(deployment: &ActiveRevisions) -> Self {
        let canary = deployment.canary.as_ref().map(|canary| canary.revision.digest);
        Self { current: deployment.current.digest, canary }
    }

    /// Refuses a change of `component` if digests are expected and `present` differs from them.
    pub(super) fn check(expected: Option<&Self>, component: &str, present: &Self) -> Result<(), DeployError> {
        match expected.is_none_or(|expected| expected == present) {
            true => Ok(()),
            false => Err(DeployError::Changed(component.to_owned())),
        }
    }
}

//! A change for all hosts of a store.

use super::audit::Action;
use super::expected::Expected;
use super::fleet::{CanaryEntry, ServingEntry};
use super::policy::Signature;
use crate::component::CanaryPolicy;
use crate::digest::Digest;

/// A change of a component that every host prepares first.
pub struct FleetChange<'a> {
    pub by: &'a str,
    pub action: Action,
    pub canary: Option<&'a CanaryPolicy>,
    /// The reason for trusting the component, if a policy exists.
    pub trust: Option<&'a str>,
    /// The hosts that the change leaves out, by name or instance.
    pub without: &'a [String],
    /// The digests that the component replaces; any if `None`.
    pub expected: Option<&'a Expected>,
    /// The component and its signature, if it was sent.
    pub sent: Option<(&'a [u8], Option<&'a Signature>)>,
}

impl FleetChange<'_> {
    /// The entry of the component `digest`, after `entry`, while `present` is active.
    pub fn entry(&self, entry: Option<&ServingEntry>, present: Digest, digest: Digest) -> ServingEntry {
        let before = entry.and_then(|entry| entry.previous);
        let (by, action) = (self.by.to_owned(), self.action);
        match self.canary {
            Some(policy) => {
                let canary = Some(CanaryEntry::new(digest, policy));
                ServingEntry { digest: present, previous: before, canary, by, action, reason: None }
            }
            None => {
                let previous = if present == digest { before } else { Some(present) };
                ServingEntry { digest, previous, canary: None, by, action, reason: None }
            }
        }
    }
}

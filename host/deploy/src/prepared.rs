//! Checked revisions that a change is about to use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hexad_runtime::component::{ComponentService, Revision, Settings};
use hexad_support::digest::Digest;

/// How long a revision is kept without a pending change.
const KEEP: Duration = Duration::from_secs(120);

/// A checked revision, and the settings that it was made with.
struct Prepared {
    settings: Arc<Settings>,
    revision: Arc<Revision>,
    at: Instant,
}

/// By the component's id and the digest.
#[derive(Default)]
pub struct PreparedRevisions(Mutex<BTreeMap<(String, [u8; 32]), Prepared>>);

impl PreparedRevisions {
    pub fn keep(&self, component: &str, settings: Arc<Settings>, revision: Arc<Revision>) {
        let key = key(component, &revision.digest);
        self.lock().insert(key, Prepared { settings, revision, at: Instant::now() });
    }

    pub fn remove(&self, component: &str, digest: &Digest) {
        self.lock().remove(&key(component, digest));
    }

    /// A checked revision with the service's present settings: a prepared one, or else one that serves or the standby.
    pub fn find(&self, service: &ComponentService, digest: &Digest) -> Option<Arc<Revision>> {
        let deployment = service.deployment();
        if let Some(found) = self.lock().get(&key(service.id(), digest))
            && Arc::ptr_eq(&found.settings, &deployment.settings)
        {
            return Some(found.revision.clone());
        }
        let canary = deployment.canary.as_ref().map(|canary| &canary.revision);
        let known = [Some(&deployment.current), deployment.previous.as_ref(), canary];
        known.into_iter().flatten().find(|revision| revision.digest == *digest).cloned()
    }

    /// Drops the revisions that no host needs and that no change is about to use.
    pub fn forget_except(&self, wanted: &[Digest]) {
        self.lock().retain(|(_, digest), prepared| {
            prepared.at.elapsed() < KEEP || wanted.iter().any(|wanted| wanted.as_bytes() == digest)
        });
    }

    pub fn digests(&self) -> Vec<Digest> {
        self.lock().values().map(|prepared| prepared.revision.digest).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, [u8; 32]), Prepared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(component: &str, digest: &Digest) -> (String, [u8; 32]) {
    (component.to_owned(), *digest.as_bytes())
}

//! The host's own work while it serves: maintenance, and the reload of the manifest.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hexad_deploy::{DeployError, Deployer, ReloadError, Reloaded};
use hexad_engine::StoreMonitor;
use hexad_manifest::{Maintenance, Manifest, ManifestError};
use hexad_runtime::application::Application;
use hexad_runtime::shard::Shard;
use hexad_support::serving_threads::ServingThreads;

use crate::maintenance::{Maintainer, Task};

/// The maintenance that the manifest asks for.
pub struct BackgroundTasks(Mutex<Option<Parts>>);

/// The parts of the host that exist until it stops.
struct Parts {
    application: Arc<Application>,
    shards: Arc<Vec<Shard>>,
    store: StoreMonitor,
    threads: ServingThreads,
    maintains: bool,
    maintainer: Option<Maintainer>,
}

impl BackgroundTasks {
    pub fn new(
        application: Arc<Application>,
        shards: Arc<Vec<Shard>>,
        store: StoreMonitor,
        threads: ServingThreads,
    ) -> Arc<Self> {
        let parts = Parts { application, shards, store, threads, maintains: false, maintainer: None };
        Arc::new(Self(Mutex::new(Some(parts))))
    }

    /// Starts the maintenance, now and after each reload.
    pub fn start(&self) -> io::Result<()> {
        match &mut *self.parts() {
            Some(parts) => {
                parts.maintains = true;
                parts.start()
            }
            None => Ok(()),
        }
    }

    /// Ends the maintenance for good and releases the shards, without waiting for a request under way.
    pub fn stop(&self) {
        let parts = self.parts().take();
        if let Some(maintainer) = parts.and_then(|parts| parts.maintainer) {
            maintainer.stop();
        }
    }

    fn parts(&self) -> MutexGuard<'_, Option<Parts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    fn start(&mut self) -> io::Result<()> {
        let tasks = self.maintenance().into_iter().map(|(component, maintenance)| Task::new(component, maintenance));
        let tasks: Vec<_> = tasks.collect();
        if !tasks.is_empty() {
            let (shards, store, threads) = (self.shards.clone(), self.store.clone(), self.threads.clone());
            self.maintainer = Some(Maintainer::start(tasks, shards, store, threads)?);
        }
        Ok(())
    }

    /// The maintenance of each component that asks for it.
    fn maintenance(&self) -> Vec<(String, Maintenance)> {
        let services = self.application.services().iter();
        services
            .filter_map(|service| Some((service.id().to_owned(), service.component().maintenance.clone()?)))
            .collect()
    }
}

/// Applies a manifest that was read again. It does not keep the host's parts alive: after the host is dropped, it does
/// nothing.
#[derive(Clone)]
pub struct Reloader {
    deployer: Weak<Deployer>,
    background_tasks: Weak<BackgroundTasks>,
}

impl Reloader {
    pub fn new(deployer: &Arc<Deployer>, background_tasks: &Arc<BackgroundTasks>) -> Self {
        Self { deployer: Arc::downgrade(deployer), background_tasks: Arc::downgrade(background_tasks) }
    }

    /// Applies the manifest: routes, limits, variables, grants. Requests under way finish as they began. If the
    /// manifest is unreadable or a part of it cannot be applied, nothing changes; the log, the audit log and the status
    /// say why. It blocks, at most until the host stops.
    pub fn reload(&self, manifest: Result<Manifest, ManifestError>) -> Result<Reloaded, ReloadError> {
        let (Some(deployer), Some(background_tasks)) = (self.deployer.upgrade(), self.background_tasks.upgrade())
        else {
            return Err(DeployError::Stopping.into());
        };
        let before = background_tasks.parts().as_ref().map(Parts::maintenance);
        let reloaded = deployer.reload(manifest)?;
        if let Some(parts) = &mut *background_tasks.parts()
            && parts.maintains
            && before.as_ref() != Some(&parts.maintenance())
        {
            if let Some(maintainer) = parts.maintainer.take() {
                maintainer.stop();
            }
            if let Err(error) = parts.start() {
                tracing::error!(%error, "no thread for maintenance can be started; there is none until a restart");
            }
        }
        Ok(reloaded)
    }
}

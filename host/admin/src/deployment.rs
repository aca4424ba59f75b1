//! Deployments that an operator asks for.

use std::sync::Arc;

use hexad_deploy::{DeployError, DeployReport, Deployer};
use hexad_store::{ErrorKind, StoreError};
use http::StatusCode;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Deployments at one time. The deployer serializes most of their work.
pub const MAX_DEPLOYMENTS: usize = 8;

/// The listener's threads for deployments. Without this limit, a page that reads a file would wait for a thread until a
/// component is compiled.
pub struct DeploymentThreads(Arc<Semaphore>);

/// Why a deployment did not take place, or is not complete. Each text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum DeploymentFailure {
    #[error(transparent)]
    Refused(#[from] DeployError),
    #[error("the deployment failed unexpectedly; see the host's log")]
    Panicked,
}

impl Default for DeploymentThreads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_DEPLOYMENTS)))
    }
}

impl DeploymentThreads {
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
        let permit = self.0.clone().acquire_owned().await;
        let work = move || {
            // Held until the work is done, also if its client is gone.
            let _permit = permit;
            work()
        };
        tokio::task::spawn_blocking(work).await
    }
}

impl DeploymentFailure {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Refused(error) => status(error),
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether the component is certainly served as before.
    pub fn changed_nothing(&self) -> bool {
        match self {
            Self::Refused(error) => error.changed_nothing(),
            Self::Panicked => false,
        }
    }
}

fn status(error: &DeployError) -> StatusCode {
    match error {
        DeployError::Unknown(_) => StatusCode::NOT_FOUND,
        DeployError::CanaryUnderWay(_)
        | DeployError::ServesAlready(_)
        | DeployError::NoCanary(_)
        | DeployError::NoPrevious(_)
        | DeployError::Changed(_)
        | DeployError::Mixture(_)
        | DeployError::Fleet(_) => StatusCode::CONFLICT,
        DeployError::TrialEnded { source, .. } => status(source),
        DeployError::Untrusted { .. } => StatusCode::FORBIDDEN,
        DeployError::Load(error) => error.store_error().map_or(StatusCode::UNPROCESSABLE_ENTITY, status_of_store),
        DeployError::Store(error) => status_of_store(error),
        DeployError::Stopping | DeployError::Unconfirmed(_) | DeployError::NotServedYet(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        DeployError::Artifact { .. } | DeployError::Record(_) | DeployError::Io { .. } => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

fn status_of_store(error: &StoreError) -> StatusCode {
    match error.kind() {
        ErrorKind::Fault => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorKind::Unavailable(_) | ErrorKind::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Runs a deployment on another thread, because it blocks.
pub async fn run(
    threads: &DeploymentThreads,
    deployer: Arc<Deployer>,
    deployment: impl FnOnce(&Deployer) -> Result<DeployReport, DeployError> + Send + 'static,
) -> Result<DeployReport, DeploymentFailure> {
    match threads.run(move || deployment(&deployer)).await {
        Ok(outcome) => Ok(outcome?),
        Err(panic) => {
            tracing::error!(%panic, "a deployment panicked");
            Err(DeploymentFailure::Panicked)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};

    use tokio::task::JoinSet;

    use super::*;
    use hexad_testing::wait::SOON;
    use hexad_testing::wait_async::{wait_until_async, within_async};

    #[test]
    fn deployments_leave_threads_for_pages() {
        super::super::new_runtime().unwrap().block_on(async {
            let threads = Arc::new(DeploymentThreads::default());
            let (end, ended) = mpsc::channel::<()>();
            let ended = Arc::new(Mutex::new(ended));
            let begun = Arc::new(AtomicUsize::new(0));
            let mut deployments = JoinSet::new();
            for _ in 0..MAX_DEPLOYMENTS + 5 {
                let (threads, ended, begun) = (threads.clone(), ended.clone(), begun.clone());
                let deploy = move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    ended.lock().unwrap().recv()
                };
                deployments.spawn(async move { threads.run(deploy).await });
            }
            let all_run = async || begun.load(Ordering::SeqCst) == MAX_DEPLOYMENTS;
            wait_until_async(SOON, "deployments on all their threads", all_run).await;
            within_async(SOON, "a thread for a page", tokio::task::spawn_blocking(|| ())).await.unwrap();
            drop(end);
            assert_eq!(deployments.join_all().await.len(), MAX_DEPLOYMENTS + 5);
        });
    }

    #[test]
    fn only_certain_refusals_say_that_nothing_changed() {
        let refused = DeploymentFailure::Refused(DeployError::Changed("a".into()));
        assert!(refused.changed_nothing() && refused.status() == StatusCode::CONFLICT);
        let late = DeploymentFailure::Refused(DeployError::NotServedYet("it takes too long".into()));
        assert!(!late.changed_nothing() && late.status() == StatusCode::SERVICE_UNAVAILABLE);
        let source = Box::new(DeployError::Io { subject: "the audit log", source: io::ErrorKind::StorageFull.into() });
        let ended = DeploymentFailure::Refused(DeployError::TrialEnded { component: "a".into(), source });
        assert!(!ended.changed_nothing() && ended.status() == StatusCode::INTERNAL_SERVER_ERROR);
        assert!(ended.to_string().contains("was ended") && ended.to_string().contains("not promoted"), "{ended}");
        assert!(!DeploymentFailure::Panicked.changed_nothing());
    }
}

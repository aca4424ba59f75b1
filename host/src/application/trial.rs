//! The judgement of responses during the trial of a canary.

use std::sync::mpsc::Sender;
use std::time::Duration;

use http::StatusCode;

use crate::component::{ResponseEnd, Trial};
use crate::deployment_event::DeploymentEvent;

/// Counts a response once it has ended. If it decides against the canary, that serves no requests from then
/// on, and the supervisor, which gets `events`, ends the trial and records that.
pub fn judge(
    trial: Trial,
    component: &str,
    events: &Sender<DeploymentEvent>,
    status: StatusCode,
    latency: Duration,
) -> impl FnOnce(ResponseEnd) + Send + use<> {
    let (events, component) = (events.clone(), component.to_owned());
    move |end| {
        let digest = trial.digest();
        if let Some(reason) = trial.record(status.is_server_error(), end, latency) {
            // The supervisor is gone only while the host stops.
            let _ = events.send(DeploymentEvent::CanaryFailed { component, digest, reason });
        }
    }
}

//! Records a response's outcome in a canary's trial, and refuses a request whose client leaves too much unread.

use std::sync::mpsc::Sender;

use http::StatusCode;
use http::request::Parts;

use crate::component::{ResponseEnd, Trial};
use crate::deployment_event::DeploymentEvent;
use crate::ingress::Unread;
use crate::request_error::RequestError;

/// Refuses a request whose client has left too many responses unread meanwhile.
pub fn check_unread(request: &Parts) -> Result<(), RequestError> {
    match request.extensions.get::<Unread>().is_some_and(Unread::is_too_much) {
        true => Err(RequestError::Unread),
        false => Ok(()),
    }
}

/// Records the outcome of a response once it has ended. If the outcome fails the canary, the canary serves no further
/// requests. The supervisor, which gets `events`, then ends the trial and records that.
pub fn record_outcome(
    trial: Trial,
    component: &str,
    events: &Sender<DeploymentEvent>,
    status: StatusCode,
) -> impl FnOnce(ResponseEnd) + Send + use<> {
    let (events, component) = (events.clone(), component.to_owned());
    move |end| {
        let digest = trial.digest();
        if let Some(reason) = trial.record(status.is_server_error(), end) {
            // The supervisor has gone only while the host stops.
            let _ = events.send(DeploymentEvent::CanaryFailed { component, digest, reason });
        }
    }
}

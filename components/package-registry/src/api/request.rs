//! A request, with everything that is known about it before its endpoint is called.

use crate::name_owner::{NameAction, NameEvent, StoredProject};
use crate::route::Level;
use directory::caller::Caller;
use directory::project::ProjectKey;
use kit::{Env, Request};

/// A request and its caller, without the endpoint.
pub struct RegistryRequest {
    pub env: Env,
    pub caller: Caller,
    pub http: Request,
    pub level: Level,
    /// The registry's address as the request used it, without a trailing slash.
    pub url: String,
}

/// The id under which a caller publishes and is counted: one id for all tokens of a user, and empty for an anonymous
/// caller. It is stored with each upload.
pub fn caller_id(caller: &Caller) -> String {
    match caller {
        Caller::DeployToken(token) => format!("deploy-token:{:?}", token.source),
        Caller::User(session) => format!("user:{}", session.user.id),
        Caller::Job(job) => format!("user:{}", job.session.user.id),
        Caller::Anonymous => String::new(),
    }
}

/// The record of a change that a caller makes now, or maintenance.
pub fn event(env: &Env, caller: Option<&Caller>, action: NameAction, project: Option<&ProjectKey>) -> NameEvent {
    let by = caller.and_then(|caller| caller.user()).map(|user| user.id);
    NameEvent { id: env.id(), at: env.now, by, action, project: project.cloned().map(StoredProject), pattern: None }
}

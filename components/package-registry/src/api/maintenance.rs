//! Maintenance tasks of administrators (see [`kit::maintenance`]).

mod check;

use crate::store;
use directory::caller::{self, AcceptedTokens, Caller};
use directory::reauthorization;
use kit::fsck::CheckReport;
use kit::maintenance::{self, Maintain, Task};
use kit::reachability::{GcSource, KeyLayout, Node, StepError, Tracer};
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};

/// Answers an administrator's request.
pub async fn run(env: Env, mut request: Request, task: Task) -> Result<Response, Error> {
    let (env, caller) = reauthorization::with_body(&env, &mut request, maintenance::MAX_BODY, authenticate).await?;
    maintenance::answer(&env, request, caller.is_admin(), task, &Registry(&env)).await
}

fn authenticate(env: &Env, request: &Request) -> Result<Caller, Error> {
    let caller = caller::authenticate(env, request, AcceptedTokens::Api)?;
    caller.user_or_401()?;
    caller.require_scope(caller::api_scopes(&request.method))?;
    Ok(caller)
}

struct Registry<'a>(&'a Env);

impl GcSource for Registry<'_> {
    fn layout(&self) -> KeyLayout {
        store::key_layout()
    }

    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError> {
        match node {
            Node::Root(key) => store::trace(self.0, key, tracer),
            Node::Blob(_) => Ok(true),
        }
    }

    fn is_orphaned(&self, key: &str) -> Result<bool, StoreError> {
        store::is_orphaned(self.0, key)
    }

    fn remove_orphaned(&self, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        store::remove_orphaned(self.0, key, tracer)
    }
}

impl Maintain for Registry<'_> {
    /// Checks files one by one, because a package can have more bytes than a step may read.
    fn check(&self, env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
        check::step(env, cursor)
    }
}

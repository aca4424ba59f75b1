//! Maintenance tasks of administrators (see [`kit::maintenance`]).

mod check;

use super::access::ownership;
use crate::store::{self, PackageKey};
use directory::caller::{self, AcceptedTokens, Caller};
use directory::project;
use directory::reauthorization;
use kit::fsck::CheckReport;
use kit::gc::{self, GcReport, GcRequest};
use kit::maintenance::{self, Maintain, Task};
use kit::reachability::{GcSource, KeyLayout, Node, StepError, Tracer};
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};

/// Answers an administrator's request.
pub async fn run(env: Env, mut request: Request, task: Task) -> Result<Response, Error> {
    let (env, caller) = reauthorization::with_body(&env, &mut request, maintenance::MAX_BODY, authenticate).await?;
    maintenance::answer(&env, request, caller.is_admin(), task, &Registry { env: &env, completes_names: false }).await
}

fn authenticate(env: &Env, request: &Request) -> Result<Caller, Error> {
    let caller = caller::authenticate(env, request, AcceptedTokens::Api)?;
    caller.user_or_401()?;
    caller.require_scope(caller::api_scopes(&request.method))?;
    Ok(caller)
}

struct Registry<'a> {
    env: &'a Env,
    /// Whether visits record the owners of names.
    completes_names: bool,
}

impl Registry<'_> {
    /// Records the owner of a package's name if it has none. A damaged record is left to the check.
    fn complete_name(&self, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        let Some(PackageKey { project, name, .. }) = store::package_key(key) else { return Ok(()) };
        let completed = || -> Result<bool, StoreError> {
            let found = project::by_id(self.env, project.id)?.filter(|found| found.incarnation == project.incarnation);
            found.map_or(Ok(false), |found| ownership::complete(self.env, &found, &name))
        };
        match completed() {
            Ok(false) | Err(StoreError::Corrupt { .. }) => Ok(()),
            Ok(true) => {
                tracer.count_change();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl GcSource for Registry<'_> {
    fn layout(&self) -> KeyLayout {
        store::key_layout()
    }

    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError> {
        match node {
            Node::Root(key) => {
                let is_there = store::trace(self.env, key, tracer)?;
                if is_there && self.completes_names {
                    self.complete_name(key, tracer)?;
                }
                Ok(is_there)
            }
            Node::Blob(_) => Ok(true),
        }
    }

    fn is_orphaned(&self, key: &str) -> Result<bool, StoreError> {
        store::is_orphaned(self.env, key)
    }

    fn remove_orphaned(&self, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        store::remove_orphaned(self.env, key, tracer)
    }
}

impl Maintain for Registry<'_> {
    /// Also records the owners of names that builds without owners published.
    fn collect(&self, env: &Env, request: &GcRequest) -> Result<GcReport, StepError> {
        let completes_names = ownership::has_owners(env) && !request.dry_run;
        gc::step(env, &Registry { env: self.env, completes_names }, request)
    }

    /// Checks files one by one, because a package can have more bytes than a step may read.
    fn check(&self, env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
        check::step(env, cursor)
    }
}

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
use kit::reachability::{BlobId, GRACE, GcSource, KeyLayout, Node, StepError, Tracer};
use kit::store::StoreError;
use kit::{Env, Error, Request, Response, Timestamp};
use std::collections::BTreeSet;

/// Answers an administrator's request.
pub async fn run(env: Env, mut request: Request, task: Task) -> Result<Response, Error> {
    let (env, caller) = reauthorization::with_body(&env, &mut request, maintenance::MAX_BODY, authenticate).await?;
    maintenance::answer(&env, request, caller.is_admin(), task, &Registry { env: &env, completes: false }).await
}

fn authenticate(env: &Env, request: &Request) -> Result<Caller, Error> {
    let caller = caller::authenticate(env, request, AcceptedTokens::Api)?;
    caller.user_or_401()?;
    caller.require_scope(caller::api_scopes(&request.method))?;
    Ok(caller)
}

struct Registry<'a> {
    env: &'a Env,
    /// Whether visits complete what earlier builds did not record: the owners of names, and the index of ids.
    completes: bool,
}

impl Registry<'_> {
    /// Records the owner of a package's name if it has none, and the ids of its versions. Damaged records are left to
    /// the check.
    fn complete(&self, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        let Some(PackageKey { project, name, .. }) = store::package_key(key) else { return Ok(()) };
        let found = store::unless_damaged(project::by_id(self.env, project.id))?.flatten();
        let Some(found) = found.filter(|found| found.incarnation == project.incarnation) else { return Ok(()) };
        if ownership::has_owners(self.env)
            && store::unless_damaged(ownership::complete(self.env, &found, &name))? == Some(true)
        {
            tracer.count_change();
        }
        let indexed = store::unless_damaged(store::index_package(self.env, &project, &name))?;
        (0..indexed.unwrap_or_default()).for_each(|_| tracer.count_change());
        Ok(())
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
                if is_there && self.completes {
                    self.complete(key, tracer)?;
                }
                Ok(is_there)
            }
            Node::Blob(_) => Ok(true),
        }
    }

    fn blob_id(&self, prefix: &str, rest: &str) -> Option<BlobId> {
        match prefix == store::version_id_prefix() {
            true => store::blob_of(rest),
            false => BlobId::of_id(rest.split('/').next()?),
        }
    }

    fn is_garbage(&self, prefix: &str, blob: &BlobId, run_began: Timestamp) -> bool {
        prefix == store::version_id_prefix() || blob.is_older(run_began, GRACE)
    }

    fn confirms_garbage(&self, prefix: &str, rest: &str, run_began: Timestamp) -> Result<bool, StoreError> {
        if prefix == store::version_id_prefix() { store::is_stale(self.env, rest, run_began) } else { Ok(true) }
    }

    fn failure_domain(&self, node: Node) -> Result<Option<String>, StoreError> {
        let Node::Root(key) = node else { return Ok(None) };
        Ok(store::pages_of(key))
    }

    fn may_be_in(&self, prefix: &str, _rest: &str, damaged: &BTreeSet<String>) -> bool {
        damaged.contains(prefix)
    }

    fn is_orphaned(&self, key: &str) -> Result<bool, StoreError> {
        store::is_orphaned(self.env, key)
    }

    fn remove_orphaned(&self, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        store::remove_orphaned(self.env, key, tracer)
    }
}

impl Maintain for Registry<'_> {
    /// Also records the owners of names, and the ids of versions, that earlier builds published.
    fn collect(&self, env: &Env, request: &GcRequest) -> Result<GcReport, StepError> {
        gc::step(env, &Registry { env: self.env, completes: !request.dry_run }, request)
    }

    /// Checks files one by one, because a package can have more bytes than a step may read.
    fn check(&self, env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
        check::step(env, cursor)
    }
}

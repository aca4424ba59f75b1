//! What an administrator does for the store (see [`kit::maintenance`]).

mod check;

use crate::store;
use directory::caller::{self, Accepted};
use kit::fsck::Checked;
use kit::maintenance::{self, Task};
use kit::store::Fault;
use kit::walk::{Keeper, Place, Plan, Stopped, Visit};
use kit::{Env, Error, Request, Response};

/// Answers an administrator's request.
pub async fn run(env: Env, request: Request, task: Task) -> Result<Response, Error> {
    let caller = caller::authenticate(&env, &request, Accepted::Api)?;
    caller.user_or_401()?;
    caller.require_scope(caller::api_scopes(&request.method))?;
    maintenance::answer(&env, request, caller.is_admin(), task, &Registry(&env)).await
}

struct Registry<'a>(&'a Env);

impl Keeper for Registry<'_> {
    fn plan(&self) -> Plan {
        store::plan()
    }

    fn visit(&self, place: Place, visit: &mut Visit) -> Result<bool, Fault> {
        match place {
            Place::Root(key) => store::reach(self.0, key, visit),
            Place::Blob(_) => Ok(true),
        }
    }

    /// Files are checked one by one, because a package can have more than a step may read.
    fn check(&self, env: &Env, cursor: Option<&str>) -> Result<Checked, Stopped> {
        check::step(env, cursor)
    }
}

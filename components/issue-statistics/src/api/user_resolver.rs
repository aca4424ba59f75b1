//! Looks up usernames and handles of groups in the directory.

use crate::filter::UserResolver;
use directory::caller::Caller;
use directory::catalog::Catalog;
use directory::member::Source;
use directory::user::UserKey;
use directory::{access, namespace, user};
use kit::Env;
use kit::store::StoreError;

/// A handle stands for at most 100 members of a group, as in the reference service.
const MAX_MEMBERS: usize = 100;

pub struct DirectoryUsers<'a> {
    pub env: &'a Env,
    pub caller: &'a Caller,
    pub catalog: &'a Catalog,
}

impl DirectoryUsers<'_> {
    fn with_username(&self, name: &str) -> Result<Vec<UserKey>, StoreError> {
        Ok(user::by_username(self.env, name)?.map(|user| user.key()).into_iter().collect())
    }
}

impl UserResolver for DirectoryUsers<'_> {
    type Error = StoreError;

    fn user(&self, id: u64) -> Result<UserKey, StoreError> {
        user::key_of(self.env, id)
    }

    fn users(&self, name: &str) -> Result<Vec<UserKey>, StoreError> {
        let Some(handle) = name.strip_prefix('@') else {
            return self.with_username(name);
        };
        match namespace::find_group(self.env, handle)? {
            Some(group) if access::may_read_group(self.env, self.caller, &group)? => {
                let mut ids = Vec::new();
                self.catalog.members(self.env, &[Source::Group(group.id)], |member| {
                    if member.is_current(self.env.now) {
                        ids.push(member.user_id);
                    }
                })?;
                ids.sort_unstable();
                ids.truncate(MAX_MEMBERS);
                ids.into_iter().map(|id| user::key_of(self.env, id)).collect()
            }
            // A username may begin with `@`, too.
            _ => self.with_username(handle),
        }
    }
}

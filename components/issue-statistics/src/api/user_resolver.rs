//! Looks up usernames and handles of groups in the directory.

use crate::filter::UserResolver;
use directory::caller::Caller;
use directory::catalog::Catalog;
use directory::member::Source;
use directory::{access, namespace, user};
use kit::Env;
use kit::store::StoreError;

/// A handle stands for at most so many members of a group, as in the reference service.
const MAX_MEMBERS: usize = 100;

pub struct DirectoryUsers<'a> {
    pub env: &'a Env,
    pub caller: &'a Caller,
    pub catalog: &'a Catalog,
}

impl UserResolver for DirectoryUsers<'_> {
    type Error = StoreError;

    fn user_ids(&self, name: &str) -> Result<Vec<u64>, StoreError> {
        let Some(handle) = name.strip_prefix('@') else {
            return Ok(user::by_username(self.env, name)?.map(|user| user.id).into_iter().collect());
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
                Ok(ids)
            }
            // A username may have the sign, too.
            _ => Ok(user::by_username(self.env, handle)?.map(|user| user.id).into_iter().collect()),
        }
    }
}

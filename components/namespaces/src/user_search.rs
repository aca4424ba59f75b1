//! Searches for users, as the reference service's `User.search`: by parts of the name or username, and for
//! administrators by the whole address. The best matches come first.

use crate::email_index;
use crate::query::{Query, lower};
use crate::text::TextIndex;
use directory::catalog::{Catalog, Namespace};
use kit::Env;
use kit::keyset::SortKey;
use kit::store::StoreError;

pub struct UserSearch {
    /// Without the `@` before a username, in lower case.
    text: String,
    /// `None` if there is no text after the `@`: no user is found.
    query: Option<Query>,
}

impl UserSearch {
    /// `None` if the text is blank, so that there is no search. `parse` is one of the functions of [`Query`].
    pub fn parse(text: &str, parse: fn(&str) -> Option<Query>) -> Option<Self> {
        if text.trim().is_empty() {
            return None;
        }
        let text = text.strip_prefix('@').unwrap_or(text);
        Some(UserSearch { text: lower(text), query: parse(text) })
    }

    /// The namespaces that are found, by row; groups are among them. `with_addresses`: also those of users with this
    /// address, which costs the reads of [`email_index::users_with`] if the text has an `@`.
    pub fn find<'c>(
        &self,
        env: &Env,
        catalog: &'c Catalog,
        with_addresses: bool,
    ) -> Result<Vec<Namespace<'c>>, StoreError> {
        let Some(query) = &self.query else { return Ok(Vec::new()) };
        let rows = TextIndex::of(env, catalog).find(catalog, query, false);
        let mut found: Vec<Namespace> = rows.iter().filter_map(|row| catalog.namespace_in_row(row)).collect();
        if with_addresses && self.text.contains('@') {
            let users = email_index::users_with(env, &self.text)?;
            found.extend(users.into_iter().filter_map(|id| catalog.namespace_of_user(id)));
            found.sort_unstable_by_key(|namespace| namespace.row());
            found.dedup_by_key(|namespace| namespace.row());
        }
        Ok(found)
    }

    /// Whether a user is found by name or username.
    pub fn matches(&self, user: Namespace) -> bool {
        let matches = |query: &Query| query.matches(&lower(user.name())) || query.matches(&lower(user.path()));
        self.query.as_ref().is_some_and(matches)
    }

    /// The place of a user who is found: the one with this username, those with this name, and the others, each by
    /// name and id.
    pub fn place(&self, user: Namespace) -> SortKey {
        let name = lower(user.name());
        let rank = if user.path().eq_ignore_ascii_case(&self.text) {
            0
        } else if name == self.text {
            1
        } else {
            2
        };
        SortKey { text: format!("{rank}{name}"), id: user.owner().unwrap_or(0) }
    }
}

//! Searches for users like `User.search` of the reference service: by parts of the name or username. Administrators
//! also search by the whole address. The best matches come first.

use crate::email_index;
use crate::query::{Query, lower};
use crate::text::TextIndex;
use directory::catalog::{Catalog, NamespaceView};
use kit::Env;
use kit::keyset::SortKey;
use kit::store::StoreError;

pub struct UserSearch {
    /// The text in lower case, without the `@` before a username.
    text: String,
    /// `None` if no text follows the `@`. Then no user matches.
    query: Option<Query>,
}

impl UserSearch {
    /// `None` if the text is blank. `parse` is one of the functions of [`Query`].
    pub fn parse(text: &str, parse: fn(&str) -> Option<Query>) -> Option<Self> {
        if text.trim().is_empty() {
            return None;
        }
        let text = text.strip_prefix('@').unwrap_or(text);
        Some(UserSearch { text: lower(text), query: parse(text) })
    }

    /// The namespaces that match, by row; they include groups. `with_addresses` adds users with this address. If the
    /// text has an `@`, this costs the reads of [`email_index::users_with_address`].
    pub fn find<'c>(
        &self,
        env: &Env,
        catalog: &'c Catalog,
        with_addresses: bool,
    ) -> Result<Vec<NamespaceView<'c>>, StoreError> {
        let Some(query) = &self.query else { return Ok(Vec::new()) };
        let rows = TextIndex::of(env, catalog).find(catalog, query, false);
        let mut found: Vec<NamespaceView> = rows.iter().filter_map(|row| catalog.namespace_in_row(row)).collect();
        if with_addresses && self.text.contains('@') {
            let users = email_index::users_with_address(env, &self.text)?;
            found.extend(users.into_iter().filter_map(|id| catalog.namespace_of_user(id)));
            found.sort_unstable_by_key(|namespace| namespace.row());
            found.dedup_by_key(|namespace| namespace.row());
        }
        Ok(found)
    }

    /// Whether the name or username of a user matches.
    pub fn matches(&self, user: NamespaceView) -> bool {
        let matches = |query: &Query| query.matches(&lower(user.name())) || query.matches(&lower(user.path()));
        self.query.as_ref().is_some_and(matches)
    }

    /// The sort key of a match. First comes the user with this username, then users with this name, then others, each
    /// by name and id.
    pub fn sort_key(&self, user: NamespaceView) -> SortKey {
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

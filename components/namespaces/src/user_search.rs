//! Searches for users like `User.search` of the reference service: by parts of the name or username. Administrators
//! also search by the whole address. The best matches come first.
//!
//! An index of the users with an email address. For the first search, an instance reads the records of all users. It
//! keeps 16 bytes for each address until the catalog root changes.

use crate::query::{Query, lower};
use crate::text::TextIndex;
use directory::catalog::{self, Catalog, NamespaceView};
use directory::record_cache::{self, Derived};
use directory::user::{self, User};
use kit::Env;
use kit::keyset::SortKey;
use kit::store::StoreError;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

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
    /// text has an `@`, this costs the reads of [`users_with_address`].
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
            let users = users_with_address(env, &self.text)?;
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

/// The hashes of addresses and the ids of their users, in ascending order.
struct EmailIndex(Vec<(u64, u64)>);

/// The ids of the users with this address, which must be in lower case. 1 read, and 1 for each found user. After a
/// change of the catalog root also the records of all users.
pub fn users_with_address(env: &Env, address: &str) -> Result<Vec<u64>, StoreError> {
    let snapshot = record_cache::attach(env)?;
    // Without a catalog no users are listed either.
    let Some(derived) = Derived::<(), EmailIndex>::of(&snapshot) else { return Ok(Vec::new()) };
    let index = match derived.get(&()) {
        Some(index) => index,
        None => {
            let catalog = catalog::read(&snapshot)?;
            // Bypasses the cache of the snapshot, because reading all records would evict other entries.
            let index = Rc::new(EmailIndex::read(env, &catalog)?);
            derived.put((), index.clone());
            index
        }
    };
    let mut found = Vec::new();
    for id in index.candidates(address) {
        if user::by_id(env, id)?.and_then(|user| address_of(&user)).as_deref() == Some(address) {
            found.push(id);
        }
    }
    Ok(found)
}

/// The address of a user, in lower case.
fn address_of(user: &User) -> Option<String> {
    user.commit_email.as_deref().map(lower)
}

fn hash(address: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    address.hash(&mut hasher);
    hasher.finish()
}

impl EmailIndex {
    fn read(env: &Env, catalog: &Catalog) -> Result<Self, StoreError> {
        let mut entries = Vec::new();
        for id in catalog.namespaces().filter_map(NamespaceView::owner) {
            let address = user::by_id(env, id)?.and_then(|user| address_of(&user));
            entries.extend(address.map(|address| (hash(&address), id)));
        }
        entries.sort_unstable();
        Ok(EmailIndex(entries))
    }

    /// The ids of all users whose address has the hash of this address.
    fn candidates(&self, address: &str) -> impl Iterator<Item = u64> {
        let hash = hash(address);
        let first = self.0.partition_point(|(entry, _)| *entry < hash);
        self.0.iter().skip(first).take_while(move |(entry, _)| *entry == hash).map(|(_, id)| *id)
    }
}

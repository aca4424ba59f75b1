//! An index of the users with an email address. For the first search, an instance reads the records of all users. It
//! keeps 16 bytes for each address until the catalog root changes.

use crate::query::lower;
use directory::catalog::{self, Catalog, NamespaceView};
use directory::record_cache::{self, Derived};
use directory::user::{self, User};
use kit::Env;
use kit::store::StoreError;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

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

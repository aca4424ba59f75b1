//! Which users have an address. An instance reads the records of all users for the first search, and keeps
//! 16 bytes for each address until the catalog's root changes.

use crate::query::lower;
use directory::catalog::{self, Catalog, Namespace};
use directory::record_cache::{self, Derived};
use directory::user::{self, User};
use kit::Env;
use kit::store::StoreError;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// The hashes of addresses and the ids of their users, in ascending order.
struct EmailIndex(Vec<(u64, u64)>);

/// The ids of the users with this address, which is in lower case. 1 read, and 1 for each of them; if the catalog's
/// root has changed, also the records of all users.
pub fn users_with(env: &Env, address: &str) -> Result<Vec<u64>, StoreError> {
    let snapshot = record_cache::attach(env)?;
    // Without a catalog there is no list of users either.
    let Some(derived) = Derived::<(), EmailIndex>::of(&snapshot) else { return Ok(Vec::new()) };
    let index = match derived.get(&()) {
        Some(index) => index,
        None => {
            let catalog = catalog::read(&snapshot)?;
            // The records are not read through the snapshot: all of them would evict the others from its cache.
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

/// In lower case.
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
        for id in catalog.namespaces().filter_map(Namespace::owner) {
            let address = user::by_id(env, id)?.and_then(|user| address_of(&user));
            entries.extend(address.map(|address| (hash(&address), id)));
        }
        entries.sort_unstable();
        Ok(EmailIndex(entries))
    }

    /// The ids of all users with this address, and of those whose address has the same hash.
    fn candidates(&self, address: &str) -> impl Iterator<Item = u64> {
        let hash = hash(address);
        let first = self.0.partition_point(|(entry, _)| *entry < hash);
        self.0.iter().skip(first).take_while(move |(entry, _)| *entry == hash).map(|(_, id)| *id)
    }
}

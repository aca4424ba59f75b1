//! A cache of records in an instance, valid as long as the catalog's root stays the same.
//!
//! Every change of a user, a membership, a namespace, a project or a path changes that root before it is acknowledged
//! ([`crate::catalog::intent_log`]). So a request that finds the root unchanged may use the records that its instance
//! has read. It costs 1 read, not 1 for each record. Tokens, settings and features are always read from the store,
//! because their changes do not change the root.
//!
//! Values that are derived only from such records can be cached as long ([`Derived`]).

use crate::project::{self, Project, ProjectLookup};
use crate::store::Key;
use kit::Env;
use kit::instance_cache::InstanceCache;
use kit::lru::ByteLru;
use kit::store::{CompareAndSwap, Store, StoreError};
use lru::LruCache;
use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// The most bytes of cached records in an instance.
const CAPACITY: usize = 8 * 1024 * 1024;

/// The size of an entry beyond its key and value, in bytes. It bounds many small entries.
const OVERHEAD: usize = 128;

/// The most derived values of one type in an instance.
const MAX_DERIVED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);

/// The prefix of all keys of the directory.
pub(crate) const PREFIX: &str = "directory/v1/";

/// The prefixes of cached keys. Their changes change the catalog's root.
const CACHED_PREFIXES: [&str; 5] = ["user/", "access/", "namespace/", "project/", "path/"];

/// Adds the record cache to an environment. 1 read. For requests that do not change the directory.
pub fn attach(env: &Env) -> Result<Env, StoreError> {
    // Without a catalog no import has written the records, and their changes are not visible in a root.
    let Some(root) = env.store.get(&Key::Catalog.text())? else { return Ok(env.clone()) };
    let make = || Records { root: root.clone(), cached: ByteLru::new(CAPACITY), derived: InstanceCache::default() };
    let records = env.instance_cache.get_current_or_insert_with(|known: &Records| known.root == root, make);
    let present = env.store.clone();
    let store = CachedStore { inner: present.clone(), records: records.clone(), is_outdated: Cell::new(false) };
    let snapshot = Snapshot { records, present };
    Ok(Env { store: Rc::new(store), snapshot: Some(Rc::new(snapshot)), ..env.clone() })
}

/// The environment for a request that has waited, for example for its body, with the present time and the present
/// records. 1 read; after [`attach`] 2.
pub fn renew(env: &Env) -> Result<Env, StoreError> {
    let later = env.with_current_time();
    // A host answers reads from memory. If it shares its store, it fetches other hosts' changes when a request begins.
    // It does so again for each operation that memory cannot answer, such as this one.
    env.store.exists(&Key::Catalog.text())?;
    match env.snapshot.as_ref().and_then(|snapshot| snapshot.downcast_ref::<Snapshot>()) {
        Some(snapshot) => attach(&Env { store: snapshot.present.clone(), snapshot: None, ..later }),
        None => Ok(later),
    }
}

/// Values of one type that an instance has derived only from cached records, by key. They are dropped with the records.
pub struct Derived<K, V>(RefCell<LruCache<K, Rc<V>>>);

impl<K: Hash + Eq + 'static, V: 'static> Derived<K, V> {
    /// The values derived from the records that the request reads; `None` without [`attach`] or without a catalog.
    pub fn of(env: &Env) -> Option<Rc<Self>> {
        let Snapshot { records, .. } = env.snapshot.as_ref()?.downcast_ref()?;
        Some(records.derived.get_or_insert_with(|| Derived(RefCell::new(LruCache::new(MAX_DERIVED)))))
    }

    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Rc<V>>
    where
        K: Borrow<Q>,
    {
        self.0.borrow_mut().get(key).cloned()
    }

    pub fn put(&self, key: K, value: Rc<V>) {
        self.0.borrow_mut().put(key, value);
    }
}

/// The project with this id or full path, as by [`project::find`]. After [`attach`], an instance builds a project from
/// its records once, as long as the catalog's root stays the same.
pub fn find_project(env: &Env, id_or_path: &str) -> Result<ProjectLookup<Rc<Project>>, StoreError> {
    let known = Derived::<String, Project>::of(env);
    if let Some(project) = known.as_ref().and_then(|known| known.get(id_or_path)) {
        return Ok(ProjectLookup::Found(project));
    }
    Ok(match project::find(env, id_or_path)? {
        ProjectLookup::Found(project) => {
            let project = Rc::new(project);
            if let Some(known) = known {
                known.put(id_or_path.to_owned(), project.clone());
            }
            ProjectLookup::Found(project)
        }
        ProjectLookup::Moved(project) => ProjectLookup::Moved(Rc::new(project)),
        ProjectLookup::Missing => ProjectLookup::Missing,
    })
}

/// The state of the store that a request reads.
struct Snapshot {
    records: Rc<Records>,
    /// The store behind the cache, which reads the present values.
    present: Rc<dyn Store>,
}

/// The records that were read while the root had this value.
struct Records {
    root: Vec<u8>,
    /// `None` for an absent key.
    cached: ByteLru<String, Option<Vec<u8>>>,
    /// The values of each type of [`Derived`].
    derived: InstanceCache,
}

/// A store that reads cached records from the cache.
struct CachedStore {
    inner: Rc<dyn Store>,
    records: Rc<Records>,
    /// Whether a blob of the root was removed, so that the present root must be read.
    is_outdated: Cell<bool>,
}

impl Store for CachedStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match key.strip_prefix(PREFIX) {
            Some("catalog") if !self.is_outdated.get() => return Ok(Some(self.records.root.clone())),
            Some(below) if below.starts_with("catalog/blob/") => {
                let blob = self.inner.get(key)?;
                // A replaced root's blobs are kept for a minute. Some requests take longer.
                self.is_outdated.set(self.is_outdated.get() || blob.is_none());
                return Ok(blob);
            }
            Some(below) if CACHED_PREFIXES.iter().any(|prefix| below.starts_with(prefix)) => {}
            _ => return self.inner.get(key),
        }
        if let Some(known) = self.records.cached.get(key) {
            return Ok(known);
        }
        let value = self.inner.get(key)?;
        let size = key.len() + value.as_ref().map_or(0, Vec::len) + OVERHEAD;
        self.records.cached.put(key.to_owned(), size, value.clone());
        Ok(value)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.inner.set(key, value)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.inner.delete(key)
    }

    fn exists(&self, key: &str) -> Result<bool, StoreError> {
        self.inner.exists(key)
    }

    fn increment(&self, key: &str, delta: i64) -> Result<i64, StoreError> {
        self.inner.increment(key, delta)
    }

    fn begin_cas(&self, key: &str) -> Result<Box<dyn CompareAndSwap>, StoreError> {
        self.inner.begin_cas(key)
    }

    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.inner.list(prefix, after, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{self, Role};
    use crate::caller::{AcceptedTokens, authenticate};
    use crate::catalog;
    use crate::catalog::changes::Changes;
    use crate::member::Source;
    use crate::project::{FeatureAccess, NewProject};
    use crate::testing::*;
    use crate::token::Subject;
    use crate::user::{self, NewUser, UserState};
    use kit::Timestamp;
    use kit::blob::BlobCache;
    use kit::testing::{FailingStore, MemoryStore, NOW, env};

    fn forge() -> (MemoryStore, Env) {
        let store = MemoryStore::default();
        let env = env(store.clone(), &[]);
        fill(&env);
        join(&env, 3, Source::Group(10), Role::Developer);
        issue_to(&env, "t", 3, &["api"]);
        let all = |changes: &mut Changes| {
            changes.group(10);
            changes.project(100);
        };
        change(&env, all, || ());
        (store, env)
    }

    /// The status and the role in project 101 of the user whose token is `t`, after at most `reads` reads.
    fn role(env: &Env, reads: u64, store: &MemoryStore) -> Result<Role, u16> {
        let counted = Env { store: Rc::new(FailingStore::after(reads, store.clone())), ..env.clone() };
        let cached = attach(&counted).unwrap();
        let request = request("authorization", "Bearer t");
        let caller = authenticate(&cached, &request, AcceptedTokens::Registry).map_err(|e| e.status.as_u16())?;
        let project = project::by_id(&cached, 101).unwrap().unwrap();
        Ok(access::project_role(&cached, &caller, &project).unwrap())
    }

    #[test]
    fn a_second_request_reads_the_root_and_the_token() {
        let (store, env) = forge();
        assert_eq!(role(&env, 100, &store), Ok(Role::Developer));
        assert_eq!(role(&env, 2, &store), Ok(Role::Developer));
    }

    #[test]
    fn every_change_is_seen_by_the_next_request() {
        let (store, env) = forge();
        let now = |env: &Env| role(env, 100, &store);
        assert_eq!(now(&env), Ok(Role::Developer));
        list_member(&env, 3, Source::Group(10), None);
        assert_eq!(now(&env), Ok(Role::None), "a removed member");
        list_user(&env, NewUser { state: UserState::Blocked, ..new_user(3, "bob") });
        assert_eq!(now(&env), Err(403), "a blocked user");
        list_user(&env, new_user(3, "bob"));
        assert_eq!(now(&env), Ok(Role::None));
        let mut revoked = new_token(Subject::User(3), &["api"]);
        revoked.revoked = true;
        issue(&env, "t", revoked);
        assert_eq!(now(&env), Err(401), "a revoked token, without an import");
    }

    /// The catalog has no column for these fields.
    #[test]
    fn a_change_that_no_table_of_the_catalog_shows_is_seen_too() {
        let (_, env) = forge();
        let registry = || project::by_id(&attach(&env).unwrap(), 101).unwrap().unwrap().registry;
        assert_eq!(registry(), FeatureAccess::Enabled);
        let closed = NewProject { registry: FeatureAccess::Disabled, ..new_project(101, "Engine", 11) };
        list_project(&env, closed);
        assert_eq!(registry(), FeatureAccess::Disabled);
    }

    #[test]
    fn a_project_is_made_of_its_records_once_until_one_of_them_changes() {
        let (store, env) = forge();
        let find = |reads: u64| {
            let counted = Env { store: Rc::new(FailingStore::after(reads, store.clone())), ..env.clone() };
            match find_project(&attach(&counted).unwrap(), "101") {
                Ok(ProjectLookup::Found(project)) => project,
                other => panic!("{other:?}"),
            }
        };
        let first = find(100);
        assert!(Rc::ptr_eq(&first, &find(1)), "the root alone is read");
        list_group(&env, new_group(10, "renamed", None));
        let renamed = find(100);
        assert!(first.full_path() != renamed.full_path(), "{} {}", first.full_path(), renamed.full_path());
    }

    #[test]
    fn a_request_that_waited_can_read_the_present_records() {
        let (_, env) = forge();
        let began = attach(&env).unwrap();
        let state = |env: &Env| user::by_id(env, 3).unwrap().unwrap().state;
        assert_eq!(state(&began), UserState::Active);
        list_user(&env, NewUser { state: UserState::Blocked, ..new_user(3, "bob") });
        assert_eq!((state(&began), state(&renew(&began).unwrap())), (UserState::Active, UserState::Blocked));
        let moment = Timestamp::from_millis(NOW.millis() + 5);
        let late = Env { clock: Rc::new(moment), ..began };
        assert_eq!(renew(&late).unwrap().now, moment);
        assert!(renew(&env).unwrap().snapshot.is_none(), "what was not attached stays so");
    }

    #[test]
    fn a_request_that_outlives_its_revision_reads_the_present_one() {
        let (_, env) = forge();
        let slow = attach(&env).unwrap();
        let rename = |path: &str, after: i64| {
            let now = Timestamp::from_millis(NOW.millis() + after);
            list_project(&Env { now, clock: Rc::new(now), ..env.clone() }, new_project(100, path, 10));
        };
        rename("one", 0);
        // A batch sets the retirement time of the blobs that the previous batch retired. A batch after the retention
        // time deletes them.
        rename("two", 100_000);
        rename("three", 200_000);
        let slow = Env { instance_cache: Rc::default(), blobs: Rc::new(BlobCache::new(1 << 20)), ..slow };
        assert_eq!(catalog::read(&slow).unwrap().project(100).unwrap().path(), "three");
    }

    #[test]
    fn without_a_catalog_nothing_is_cached() {
        let store = MemoryStore::default();
        let env = env(store.clone(), &[]);
        fill(&env);
        let name = |env: &Env| user::by_id(&attach(env).unwrap(), 3).unwrap().unwrap().username;
        assert_eq!(name(&env), "bob");
        user::save(&env, new_user(3, "rob")).unwrap();
        assert_eq!(name(&env), "rob");
    }
}

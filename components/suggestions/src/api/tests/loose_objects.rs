//! Objects that are stored one by one, as imports and earlier builds wrote them.

use super::{Forge, PUBLIC, Repository, send};
use http::Method;
use kit::store::{CompareAndSwap, Store, StoreError};
use kit::testing::MemoryStore;
use std::cell::Cell;
use std::rc::Rc;

/// A store in which `change` happens right before the first read of a loose object.
#[derive(Clone)]
struct ChangingStore {
    inner: MemoryStore,
    change: Rc<dyn Fn(&MemoryStore)>,
    is_changed: Rc<Cell<bool>>,
}

impl ChangingStore {
    fn before(&self, key: &str) -> &MemoryStore {
        if key.contains("/object/") && !self.is_changed.replace(true) {
            (self.change)(&self.inner);
        }
        &self.inner
    }
}

impl Store for ChangingStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.before(key).get(key)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.inner.set(key, value)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.inner.delete(key)
    }

    fn exists(&self, key: &str) -> Result<bool, StoreError> {
        self.before(key).exists(key)
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

#[test]
fn an_object_that_is_moved_to_a_pack_meanwhile_is_found() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", b"one\n"), ("d/b.txt", b"b\n")]);
    forge.import(PUBLIC, &repository);
    forge.merge_request(1, serde_json::Value::Null);
    // This store after repacking.
    let repacked = forge.store.snapshot();
    let pack = repository.git(&["pack-objects", "-q", "--all", "--stdout"]);
    let path = format!("import/suggestions/{PUBLIC}/pack");
    let env = forge.env_over(repacked.clone());
    assert_eq!(send(env, Method::POST, &path, "root", "application/octet-stream", pack).status, 200);
    let change = move |store: &MemoryStore| {
        for key in repacked.keys() {
            if store.get(&key).unwrap() != repacked.get(&key).unwrap() {
                store.set(&key, &repacked.get(&key).unwrap().unwrap()).unwrap();
            }
        }
        let loose = store.keys().into_iter().filter(|key| key.contains("/object/"));
        loose.for_each(|key| store.delete(&key).unwrap());
    };
    let store = ChangingStore { inner: forge.store.clone(), change: Rc::new(change), is_changed: Rc::default() };
    let env = forge.env_over(store.clone());
    let answer = send(env, Method::GET, &format!("projects/{PUBLIC}/merge_requests/1/changes"), "dev", "", Vec::new());
    assert!(store.is_changed.get());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// More bytes than are decompressed as a whole.
const LARGE: usize = 97 << 20;

#[test]
fn a_large_loose_object_is_cloned() {
    let forge = Forge::new();
    let contents: Vec<u8> = (0..LARGE as u32 / 4).flat_map(|number| (number / 50).to_le_bytes()).collect();
    let repository = Repository::with(&[("large", &contents), ("small", b"one\n")]);
    forge.import(PUBLIC, &repository);
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["rev-parse", "topic:large"]), repository.text(&["rev-parse", "topic:large"]));
}

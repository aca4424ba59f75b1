//! Storage that fails, loses replies or is shared, at each operation.

use super::*;
use kit::testing::{FailingStore, LostReplyStore};
use std::collections::BTreeMap;

const PATH: &str = "/projects/7/packages/npm/lib";

/// The listed versions and the bytes of their files. Asserts that each file is served.
fn listed(forge: &Forge) -> BTreeMap<String, Vec<u8>> {
    let answer = forge.get(PATH);
    if answer.status == 404 {
        return BTreeMap::new();
    }
    let document = answer.json();
    let versions = document["versions"].as_object().unwrap();
    for version in document["dist-tags"].as_object().unwrap().values() {
        assert!(versions.contains_key(version.as_str().unwrap()), "a tag of nothing: {document}");
    }
    let file = |version: &String| {
        let answer = forge.get(&format!("{PATH}/-/lib-{version}.tgz"));
        assert_eq!(answer.status, 200, "{version} is listed, but its file is not there");
        (version.clone(), answer.body)
    };
    versions.keys().map(file).collect()
}

/// A forge with some versions, so that publishing merges runs.
fn forge(versions: u64) -> Forge {
    let forge = Forge::new();
    for n in 0..versions {
        forge.publish(PUBLIC, "lib", &format!("0.0.{n}"));
    }
    forge
}

#[test]
fn a_publication_is_whole_or_absent_whichever_operation_fails() {
    for versions in [0, 1, 30] {
        for size in [10, (2 << 20) + 1] {
            let file = tarball("lib", "1.0.0", &vec![b'x'; size]);
            let mut failures = 0;
            for operations in 0.. {
                let forge = forge(versions);
                let before = listed(&forge);
                let failing = FailingStore::after(operations, forge.store.clone());
                let request = || publication_of("lib", "1.0.0", &file).to(PUBLIC);
                let answer = TestResponse::of(forge.env_over(failing.clone()), request());
                let after = listed(&forge);
                if !failing.failed() {
                    assert_eq!(answer.status, 200);
                    assert_eq!(after.get("1.0.0"), Some(&file));
                    break;
                }
                failures += 1;
                assert_eq!(answer.status, 500, "{}", answer.text());
                assert!(answer.cause.is_some());
                assert_eq!(after, before, "operation {operations} failed");
                // The client's next attempt succeeds.
                assert_eq!(forge.send(request()).status, 200, "after operation {operations} failed");
                assert_eq!(listed(&forge).get("1.0.0"), Some(&file));
            }
            assert!(failures > 10, "{failures}");
        }
    }
}

#[test]
fn unpublishing_with_lost_replies_keeps_listed_files_and_removes_the_others() {
    for first in [true, false] {
        let forge = forge(3);
        let lossy = LostReplyStore::over(forge.store.clone());
        if first {
            let tag = request(Method::PUT, "/projects/7/packages/npm/-/package/lib/dist-tags/xx").body("\"0.0.0\"");
            assert_eq!(TestResponse::of(forge.env_over(lossy.clone()), tag).status, 204);
        }
        let mut document = forge.get(PATH).json();
        document["versions"].as_object_mut().unwrap().remove("0.0.1");
        let path = format!("{PATH}/-rev/{}", document["_rev"].as_str().unwrap());
        let request = request(Method::PUT, &path).by("maintainer").body(document.to_string());
        assert_eq!(TestResponse::of(forge.env_over(lossy), request).status, 200);
        assert_eq!(listed(&forge).len(), 2);
        assert_eq!(forge.store.keys().iter().filter(|key| key.ends_with("/0")).count(), 2);
    }
}

#[test]
fn a_change_is_whole_or_absent_whichever_operation_fails() {
    let tag = || request(Method::PUT, "/projects/7/packages/npm/-/package/lib/dist-tags/xx").body("\"0.0.0\"");
    let deprecate = || {
        let document = json!({"versions": {"0.0.0": {"deprecated": "old"}}}).to_string();
        request(Method::PUT, PATH).by("maintainer").body(document)
    };
    for request in [&tag as &dyn Fn() -> TestRequest, &deprecate] {
        for operations in 0.. {
            let forge = forge(3);
            let before = (forge.get(PATH).body, listed(&forge));
            let failing = FailingStore::after(operations, forge.store.clone());
            let answer = TestResponse::of(forge.env_over(failing.clone()), request());
            if !failing.failed() {
                assert!(answer.status < 300);
                assert_ne!(forge.get(PATH).body, before.0);
                break;
            }
            assert_eq!((answer.status, (forge.get(PATH).body, listed(&forge))), (500, before));
        }
    }
}

#[test]
fn with_lost_replies_each_change_is_made_once() {
    let forge = Forge::new();
    let lossy = LostReplyStore::over(forge.store.clone());
    let send = |request: TestRequest| TestResponse::of(forge.env_over(lossy.clone()), request).status;
    for n in 0..20 {
        assert_eq!(send(publication("lib", &format!("1.0.{n}")).to(PUBLIC)), 200);
        let tag = format!("/projects/7/packages/npm/-/package/lib/dist-tags/t{n}");
        assert_eq!(send(request(Method::PUT, &tag).body(format!("\"1.0.{n}\""))), 204);
        if n % 2 == 0 {
            assert_eq!(send(request(Method::DELETE, &tag).by("maintainer")), 204);
        }
    }
    assert_eq!(listed(&forge).len(), 20);
    let document = forge.get(PATH).json();
    assert_eq!(document["dist-tags"].as_object().unwrap().len(), 11);
    assert!(document["_rev"].as_str().unwrap().starts_with("50-"), "{}", document["_rev"]);
}

/// A store that answers a concurrent request once, just before the first swap of a package.
mod concurrent {
    use kit::store::{CompareAndSwap, Store, StoreError, SwapOutcome};
    use kit::testing::MemoryStore;
    use std::cell::RefCell;
    use std::rc::Rc;

    type Interruption = Rc<RefCell<Option<Box<dyn FnOnce()>>>>;

    pub struct InterruptedStore {
        inner: MemoryStore,
        interrupt: Interruption,
    }

    impl InterruptedStore {
        pub fn over(inner: MemoryStore, interrupt: impl FnOnce() + 'static) -> Self {
            InterruptedStore { inner, interrupt: Rc::new(RefCell::new(Some(Box::new(interrupt)))) }
        }
    }

    impl Store for InterruptedStore {
        fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
            self.inner.get(key)
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
            Ok(Box::new(Opened {
                inner: self.inner.begin_cas(key)?,
                interrupt: self.interrupt.clone(),
                is_package: key.contains("/package/"),
            }))
        }
        fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
            self.inner.list(prefix, after, limit)
        }
    }

    struct Opened {
        inner: Box<dyn CompareAndSwap>,
        interrupt: Interruption,
        is_package: bool,
    }

    impl CompareAndSwap for Opened {
        fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
            self.inner.current()
        }
        fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
            if self.is_package
                && let Some(interrupt) = self.interrupt.borrow_mut().take()
            {
                interrupt();
            }
            self.inner.swap(value)
        }
    }
}

/// Sends `request` while another one is answered just before its swap.
fn race(forge: &Forge, request: TestRequest, other: TestRequest) -> TestResponse {
    let env = forge.env();
    let store = concurrent::InterruptedStore::over(forge.store.clone(), move || {
        assert!(TestResponse::of(env, other).status < 300);
    });
    TestResponse::of(forge.env_over(store), request)
}

#[test]
fn of_two_publications_of_one_version_the_first_is_served() {
    for versions in [1, 30] {
        let forge = forge(versions);
        let ours = publication_of("lib", "1.0.0", &tarball("lib", "1.0.0", &vec![1; 1 << 20]));
        let file = tarball("lib", "1.0.0", b"theirs");
        let theirs = publication_of("lib", "1.0.0", &file);
        race(&forge, ours.to(PUBLIC), theirs.to(PUBLIC)).is_refused(403, "Package already exists.");
        assert_eq!(listed(&forge)["1.0.0"], file);
        let chunks =
            forge.store.keys().into_iter().filter(|key| key.contains("/upload/") && key.ends_with("/1")).count();
        assert_eq!(chunks, 0, "the loser's file is removed");
    }
}

#[test]
fn two_publications_of_different_versions_both_succeed() {
    for versions in [1, 30] {
        let forge = forge(versions);
        let answer = race(&forge, publication("lib", "1.0.0").to(PUBLIC), publication("lib", "1.0.1").to(PUBLIC));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(listed(&forge).len() as u64, versions + 2);
    }
}

#[test]
fn a_deprecation_keeps_a_version_that_is_published_in_between() {
    let forge = forge(5);
    let document = json!({"versions": {"0.0.0": {"deprecated": "old"}}}).to_string();
    let deprecate = request(Method::PUT, PATH).by("maintainer").body(document);
    assert_eq!(race(&forge, deprecate, publication("lib", "1.0.0").to(PUBLIC)).status, 200);
    assert_eq!(listed(&forge).len(), 6);
    assert_eq!(forge.get(PATH).json()["versions"]["0.0.0"]["deprecated"], "old");
}

//! The cost of requests in store operations, with one version and with thousands.

use super::*;
use crate::name::PackageName;
use crate::package::{Package, RunRef};
use crate::store;
use crate::version::Version;
use crate::version_run::{self, IndexEntry, VersionRun, VersionState};
use kit::root::Decision;
use kit::store::{Store, StoreError};
use kit::testing::CountingStore;

/// A forge with a package of `count` versions, published one by one; they share a file.
pub(super) fn forge(count: u64) -> Forge {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "0.0.0");
    let env = forge.env();
    let name = PackageName::parse("lib").unwrap();
    let project = project::by_id(&env, PUBLIC).unwrap().unwrap().key();
    let package = store::package(&env, &project, &name).unwrap().unwrap();
    let upload = store::find(&env, &package, "0.0.0").unwrap().unwrap().upload;
    let record = format!("{{\"name\":\"lib\",\"description\":\"{}\"}}", "x".repeat(1000));
    let grow = |package: &mut Package, number: u64| {
        let version = Version::parse(&format!("1.0.{number}")).unwrap();
        let entry = IndexEntry { version: version.as_str(), upload: &upload, at: env.now, state: VersionState::Listed };
        let new = VersionRun::of(&entry, &record, &record);
        let sizes: Vec<u64> = package.runs.iter().map(|run| run.size).collect();
        let merged = version_run::to_merge(&sizes, new.size());
        let newest: Vec<RunRef> = package.runs.iter().rev().take(merged).rev().cloned().collect();
        let older = newest.iter().map(|run_ref| store::version_run(&env, run_ref).unwrap());
        let run_ref = store::save_run(&env, &VersionRun::merge(older.chain([new]))).unwrap();
        package.publish(&version, "latest", &upload, merged, run_ref, env.now).unwrap();
    };
    store::update_package(&env, &project, &name, |package| -> Result<_, StoreError> {
        let mut package = package.unwrap();
        (1..count).for_each(|number| grow(&mut package, number));
        Ok(Decision::Replace(package, ()))
    })
    .unwrap();
    forge
}

/// The status of a request, and its operations and bytes with an empty cache.
fn cost(forge: &Forge, request: TestRequest) -> (u16, u64, u64) {
    let counting = CountingStore::over(forge.store.clone());
    let status = TestResponse::of(forge.env_over(counting.clone()), request).status;
    (status, counting.operations(), counting.bytes())
}

#[test]
fn thousands_of_versions_cost_a_publication_a_few_more_operations_and_a_revalidation_none() {
    let path = "/projects/7/packages/npm/lib";
    let [one, thousands] = [1, 5000].map(|count| {
        let forge = forge(count);
        let etag = forge.get(path).header("etag").to_owned();
        let revalidated = cost(&forge, request(Method::GET, path).with("if-none-match", &etag));
        let published = cost(&forge, publication("lib", "2.0.0").to(PUBLIC));
        assert_eq!((revalidated.0, published.0), (304, 200));
        assert_eq!(forge.get(path).json()["versions"].as_object().unwrap().len() as u64, count + 1);
        (revalidated, published)
    });
    assert_eq!(one.0.1, thousands.0.1, "operations of a revalidation");
    assert!(thousands.0.2 < one.0.2 + 4000, "bytes of a revalidation: {} and {}", one.0.2, thousands.0.2);
    assert!(thousands.1.1 <= one.1.1 + 20, "operations of a publication: {} and {}", one.1.1, thousands.1.1);
    assert!(thousands.1.2 < 2_000_000, "bytes of a publication: {}, of 15 MB of metadata", thousands.1.2);
}

/// The status and operations of the third of three equal requests to one instance. Its caches are filled.
fn warm(forge: &Forge, request: impl Fn() -> TestRequest) -> (u16, u64) {
    let counting = CountingStore::over(forge.store.clone());
    let env = forge.env_over(counting.clone());
    for _ in 0..2 {
        TestResponse::of(env.clone(), request());
    }
    let before = counting.operations();
    let status = TestResponse::of(env, request()).status;
    (status, counting.operations() - before)
}

#[test]
fn a_revalidation_with_a_token_reads_three_keys() {
    let forge = Forge::new();
    forge.publish(PRIVATE, "@acme/lib", "1.0.0");
    for id in ["9", "acme%2fsub%2fcore"] {
        for accept in ["application/json", "application/vnd.npm.install-v1+json"] {
            let get =
                || request(Method::GET, &format!("/projects/{id}/packages/npm/@acme%2flib")).with("accept", accept);
            let etag = forge.send(get()).header("etag").to_owned();
            let known = || get().with("if-none-match", &etag);
            assert_eq!(warm(&forge, known), (304, 3), "the token, the catalog's root, the package");
            assert_eq!(warm(&forge, || known().by("reporter")), (304, 3));
        }
    }
    for prefix in ["", "/groups/acme/-"] {
        let get = || request(Method::GET, &format!("{prefix}/packages/npm/@acme%2flib"));
        let etag = forge.send(get()).header("etag").to_owned();
        assert_eq!(warm(&forge, || get().with("if-none-match", &etag)), (304, 4), "and the owner of the name");
    }
}

#[test]
fn cached_users_and_projects_are_never_out_of_date() {
    let forge = Forge::new();
    forge.publish(PRIVATE, "lib", "1.0.0");
    let env = forge.env();
    let status = |user: &str| {
        TestResponse::of(env.clone(), request(Method::GET, "/projects/9/packages/npm/lib").by(user)).status
    };
    assert_eq!((status("developer"), status("reporter"), status("")), (200, 200, 401));
    forge.join(4, Source::Group(100), None);
    assert_eq!((status("developer"), status("reporter")), (404, 200));
    forge.project(PRIVATE, "core", 101, Visibility::Private, FeatureAccess::Disabled);
    assert_eq!(status("reporter"), 403);
    forge.project(PRIVATE, "core", 101, Visibility::Private, FeatureAccess::Public);
    assert_eq!((status("reporter"), status("")), (200, 200));
    forge.user(3, "reporter", UserState::Blocked);
    assert_eq!(status("reporter"), 403);
    token::save(&forge.env(), &Fingerprint::of(b"maintainer"), None).unwrap();
    assert_eq!(status("maintainer"), 401);
}

#[test]
fn a_file_that_is_downloaded_again_is_kept_by_the_instance_until_its_version_is_gone() {
    let forge = Forge::new();
    let file = tarball("lib", "1.0.0", &vec![5; 2 << 20]);
    assert_eq!(forge.send(publication_of("lib", "1.0.0", &file).to(PUBLIC)).status, 200);
    let get = || request(Method::GET, "/projects/7/packages/npm/lib/-/lib-1.0.0.tgz");
    assert_eq!(warm(&forge, get), (200, 3), "the token, the catalog's root, the package");

    let env = forge.env();
    let download = |env: &Env| TestResponse::of(env.clone(), get());
    let chunk = forge.store.keys().into_iter().find(|key| key.contains("/upload/") && key.ends_with("/0")).unwrap();
    assert_eq!([(); 3].map(|()| download(&env).body == file), [true; 3]);
    Store::set(&forge.store, &chunk, b"damage").unwrap();
    assert_eq!((download(&env).body == file, download(&forge.env()).status), (true, 500), "another instance reads it");

    let revision = forge.get("/projects/7/packages/npm/lib").json()["_rev"].as_str().unwrap().to_owned();
    let delete = request(Method::DELETE, &format!("/projects/7/packages/npm/lib/-rev/{revision}")).by("maintainer");
    assert_eq!(forge.send(delete).status, 200);
    assert_eq!(download(&env).status, 404);
}

#[test]
fn large_files_are_not_kept() {
    let forge = Forge::new();
    let file = tarball("lib", "1.0.0", &vec![5; 9 << 20]);
    assert_eq!(forge.send(publication_of("lib", "1.0.0", &file).to(PUBLIC)).status, 200);
    let get = || request(Method::GET, "/projects/7/packages/npm/lib/-/lib-1.0.0.tgz");
    let (status, reads) = warm(&forge, get);
    assert!(status == 200 && reads >= 3 + 9, "{status}, {reads}");
}

#[test]
fn one_version_of_thousands_costs_as_much_as_one_of_one() {
    let get = || request(Method::GET, "/projects/7/packages/npm/lib/0.0.0");
    let [one, thousands] = [1, 5000].map(|count| {
        let forge = forge(count);
        let (status, operations, bytes) = cost(&forge, get());
        assert_eq!(status, 200);
        (
            warm(&forge, get),
            warm(&forge, || request(Method::GET, "/projects/7/packages/npm/lib/latest")),
            operations,
            bytes,
        )
    });
    assert_eq!((one.0, one.1), (thousands.0, thousands.1));
    // Without a cache: the index of each run, and one run.
    assert!(thousands.2 <= one.2 + 20, "operations: {} and {}", one.2, thousands.2);
    assert!(thousands.3 < 4_000_000, "bytes: {}, of 15 MB of metadata", thousands.3);
}

/// A first publication: 6 reads of the directory and the settings. A read for each of five roots (a host can open a
/// connection for it) and for absent ones, of which one is the project's rules. A counter and a swap for each created
/// root. 6 blobs, a read and a write of the index of ids, and a read and a write of the marker of format 3.
#[test]
fn a_first_publication_costs_a_counter_and_a_swap_for_each_new_root() {
    let forge = Forge::new();
    let counting = CountingStore::over(forge.store.clone());
    let before = forge.store.keys();
    assert_eq!(TestResponse::of(forge.env_over(counting.clone()), publication("lib", "1.0.0").to(PUBLIC)).status, 200);
    let new: Vec<String> = forge.store.keys().into_iter().filter(|key| !before.contains(key)).collect();
    let counters = new.iter().filter(|key| key.ends_with("/init")).count();
    assert_eq!(counters, 5, "{new:#?}");
    assert!(counting.operations() <= 45, "{} operations", counting.operations());
}

/// The projects by name; a compare of the projects by version (which counts twice); its counter; and its swap, which is
/// also the claim.
#[test]
fn a_version_that_one_project_of_a_scope_may_have_costs_five_operations_more() {
    let forge = Forge::new();
    let [plain, claimed] = ["lib", "@acme/lib"].map(|name| {
        forge.publish(PUBLIC, name, "0.0.1");
        cost(&forge, publication(name, "1.0.0").to(PUBLIC))
    });
    assert_eq!((plain.0, claimed.0, claimed.1 - plain.1), (200, 200, 5), "{plain:?} {claimed:?}");
}

/// If the list of the project's names were read for each package, the cost would be the square of their number.
#[test]
fn a_check_reads_so_much_more_for_more_packages() {
    let [some, more] = [20, 80].map(|count| {
        let mut forge = Forge::new();
        forge.variables.push(("bootstrap_admin_token", "boot"));
        for n in 0..count {
            let name = format!("{}-{n}", "x".repeat(200));
            assert_eq!(forge.send(publication(&name, "1.0.0").to(PUBLIC)).status, 200, "{n}");
        }
        let check = request(Method::POST, "/maintenance/package-registry/fsck").by("boot").body("{}");
        let (status, operations, bytes) = cost(&forge, check);
        assert_eq!(status, 200);
        (operations, bytes)
    });
    assert!(more.0 < some.0 * 9 / 2 && more.1 < some.1 * 9 / 2, "{more:?}, and {some:?} of a quarter of the packages");
}

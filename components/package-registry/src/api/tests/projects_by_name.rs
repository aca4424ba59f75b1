//! Several projects with one name, if names are shared.

use super::*;
use kit::store::Store;

const NAME_KEY: &str = "package-registry/v1/name/@acme/lib";

fn by_name(forge: &Forge) -> Value {
    serde_json::from_slice(&forge.store.get(NAME_KEY).unwrap().unwrap()).unwrap()
}

fn latest(forge: &Forge, prefix: &str) -> Value {
    forge.get(&format!("{prefix}/packages/npm/@acme%2flib")).json()["dist-tags"]["latest"].clone()
}

#[test]
fn the_project_that_published_last_is_the_last() {
    let mut forge = Forge::shared();
    for (project, version) in [(PUBLIC, "1.0.0"), (INTERNAL, "2.0.0"), (17, "7.0.0"), (PUBLIC, "3.0.0")] {
        forge.publish(project, "@acme/lib", version);
        forge.advance_clock();
    }
    assert_eq!(
        by_name(&forge),
        json!({"projects": [INTERNAL, 17, PUBLIC], "by_publication": true, "without_version_lists": []})
    );
    assert_eq!((latest(&forge, "/groups/acme/-"), latest(&forge, "")), (json!("3.0.0"), json!("3.0.0")));
    forge.publish(INTERNAL, "@acme/lib", "4.0.0");
    assert_eq!((latest(&forge, "/groups/acme/-"), latest(&forge, "")), (json!("4.0.0"), json!("4.0.0")));
    assert_eq!(latest(&forge, "/groups/other/-"), "7.0.0");
    let revision = forge.get("/projects/8/packages/npm/@acme%2flib").json()["_rev"].as_str().unwrap().to_owned();
    let path = format!("/projects/8/packages/npm/@acme%2flib/-rev/{revision}");
    assert_eq!(forge.send(request(Method::DELETE, &path).by("maintainer")).status, 200);
    assert_eq!(latest(&forge, "/groups/acme/-"), "3.0.0", "a package without versions is passed over");
}

/// Earlier builds listed the projects in the order of their first publications.
#[test]
fn a_list_of_an_earlier_build_is_read_and_put_in_order_by_the_next_publication() {
    let mut forge = Forge::shared();
    for (project, version) in [(PUBLIC, "1.0.0"), (INTERNAL, "2.0.0"), (PUBLIC, "3.0.0")] {
        forge.publish(project, "@acme/lib", version);
        forge.advance_clock();
    }
    forge.store.set(NAME_KEY, format!("{{\"projects\":[{PUBLIC},{INTERNAL}]}}").as_bytes()).unwrap();
    assert_eq!(latest(&forge, "/groups/acme/-"), "3.0.0");
    forge.publish(17, "@acme/lib", "9.0.0");
    let of_earlier_build = json!([PUBLIC, INTERNAL]);
    assert_eq!(
        by_name(&forge),
        json!({"projects": [INTERNAL, PUBLIC, 17], "by_publication": true, "without_version_lists": of_earlier_build})
    );
    assert_eq!(latest(&forge, ""), "3.0.0");
}

#[test]
fn five_thousand_projects_elsewhere_cost_nothing() {
    let forge = Forge::shared();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    let count = |forge: &Forge, prefix: &str| {
        let counting = kit::testing::CountingStore::over(forge.store.clone());
        let env = forge.env_over(counting.clone());
        let get = || TestResponse::of(env.clone(), request(Method::GET, &format!("{prefix}/packages/npm/@acme%2flib")));
        assert_eq!(get().status, 200);
        let cold = counting.operations();
        assert_eq!(get().json()["dist-tags"]["latest"], "1.0.0");
        (cold, counting.operations() - cold)
    };
    let alone = ["", "/groups/acme/-"].map(|prefix| count(&forge, prefix));
    let projects: Vec<u64> = [PUBLIC].into_iter().chain(20_000..25_000).collect();
    for id in [20_000, 24_999] {
        forge.project(id, &format!("p{id}"), 200, Visibility::Private, FeatureAccess::Enabled);
    }
    let record = json!({"projects": projects, "by_publication": true});
    forge.store.set(NAME_KEY, record.to_string().as_bytes()).unwrap();
    let forge_with_names = ["", "/groups/acme/-"].map(|prefix| count(&forge, prefix));
    for (alone, forge_with_names) in alone.iter().zip(&forge_with_names) {
        assert!(forge_with_names.0 <= alone.0 + 6, "a new instance loads the catalog: {alone:?} {forge_with_names:?}");
        assert_eq!(forge_with_names.1, alone.1, "then there is no difference");
    }
}

fn publish_status(forge: &Forge, project: u64, version: &str) -> u16 {
    forge.send(publication("@acme/lib", version).to(project)).status
}

#[test]
fn projects_of_the_scope_with_other_versions_cost_a_publication_nothing() {
    let mut forge = Forge::shared();
    let mut costs = Vec::new();
    for number in 1..=40 {
        let id = 30_000 + number;
        forge.project(id, &format!("p{number}"), 100, Visibility::Private, FeatureAccess::Enabled);
        forge.publish(id, "@acme/lib", &format!("{number}.0.0"));
        forge.advance_clock();
        if [10, 40].contains(&number) {
            let snapshot = forge.store.snapshot();
            let counting = kit::testing::CountingStore::over(snapshot);
            let request = publication("@acme/lib", "0.0.1").to(30_001);
            assert_eq!(TestResponse::of(forge.env_over(counting.clone()), request).status, 200);
            costs.push(counting.operations());
        }
    }
    assert!(costs[1] <= costs[0] + 3, "10 and 40 projects: {costs:?}");
    assert_eq!(publish_status(&forge, PUBLIC, "25.0.0"), 400, "another project of the scope has it");
    assert_eq!(publish_status(&forge, PUBLIC, "41.0.0"), 200);
}

#[test]
fn a_version_of_a_project_that_moves_into_the_scope_or_is_of_an_earlier_build_is_known() {
    let forge = Forge::shared();
    forge.publish(17, "@acme/lib", "1.0.0");
    forge.publish(INTERNAL, "@acme/lib", "2.0.0");
    forge.project(17, "moved", 100, Visibility::Public, FeatureAccess::Enabled);
    assert_eq!(publish_status(&forge, PUBLIC, "1.0.0"), 400);
    forge.store.set(NAME_KEY, format!("{{\"projects\":[17,{INTERNAL}]}}").as_bytes()).unwrap();
    for key in forge.store.keys().iter().filter(|key| key.contains("/v1/version/")) {
        forge.store.delete(key).unwrap();
    }
    for version in ["1.0.0", "2.0.0"] {
        assert_eq!(publish_status(&forge, PUBLIC, version), 400, "{version} of an earlier build");
    }
    assert_eq!([publish_status(&forge, PUBLIC, "3.0.0"), publish_status(&forge, INTERNAL, "3.0.0")], [200, 400]);
}

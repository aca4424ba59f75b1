//! Names with owners: atomic claims, stores of earlier builds, merged answers and changes of rights.

use super::*;
use kit::store::Store as _;
use kit::testing::{Behaviour, CountingStore, FailingStore, LostReplyStore, Simulation};

const OWNER_KEY: &str = "package-registry/v1/owner/100/lib";

/// The owner and the further projects in the record of `lib` below `acme`.
fn record(forge: &Forge) -> (Value, Value) {
    let Some(stored) = forge.store.get(OWNER_KEY).unwrap() else { return (Value::Null, Value::Null) };
    let record: Value = serde_json::from_slice(&stored).unwrap();
    (record["owner"].clone(), record["projects"].clone())
}

fn seen(forge: &Forge, user: &str) -> (Vec<String>, Value) {
    let document = forge.send(request(Method::GET, "/groups/acme/-/packages/npm/lib").by(user));
    assert_eq!(document.status, 200, "{}", document.text());
    let document = document.json();
    (document["versions"].as_object().unwrap().keys().cloned().collect(), document["dist-tags"].clone())
}

fn names(path: &str) -> String {
    format!("/groups/acme/-/packages/npm/-/package_name_owners/{path}")
}

fn allow_request(project: u64) -> TestRequest {
    request(Method::POST, &names("lib/projects")).by("maintainer").body(json!({"project_id": project}).to_string())
}

#[track_caller]
fn allow(forge: &Forge, project: u64) {
    assert_eq!(forge.send(allow_request(project)).status, 201);
}

/// Projects of one top-level group publish a new name at once, each on a host of its own.
fn claims_at_once(seed: u64, behaviour: &Behaviour) {
    let forge = Forge::new();
    let store = Simulation::new(seed, behaviour.clone());
    for key in forge.store.keys() {
        store.env(99).store.set(&key, &forge.store.get(&key).unwrap().unwrap()).unwrap();
    }
    let publisher = |project: u64| {
        move |env: Env| TestResponse::of(env, publication("lib", &format!("1.0.{project}")).to(project)).status
    };
    let projects = [PUBLIC, INTERNAL, PRIVATE, 17];
    let statuses = store.run(projects.map(publisher).into());
    let of_run = format!("seed {seed}, {behaviour:?}: {statuses:?}");
    assert_eq!(statuses[3], 200, "{of_run}: another group's name");
    let winners: Vec<u64> =
        projects.into_iter().take(3).zip(&statuses).filter(|(_, status)| **status == 200).map(|(id, _)| id).collect();
    assert_eq!(winners.len(), 1, "{of_run}");
    assert!(statuses.iter().all(|status| [200, 403].contains(status)), "{of_run}");
    store.env(0).clock.sleep(std::time::Duration::from_secs(10));
    let get = |path: &str| TestResponse::of(store.env(99), request(Method::GET, path));
    let merged = get("/groups/100/-/packages/npm/lib").json();
    let versions: Vec<&String> = merged["versions"].as_object().unwrap().keys().collect();
    assert_eq!(versions, [&format!("1.0.{}", winners[0])], "{of_run}");
    for project in projects.into_iter().take(3).filter(|project| *project != winners[0]) {
        assert_eq!(get(&format!("/projects/{project}/packages/npm/lib")).status, 404, "{of_run}");
    }
}

#[test]
fn of_hosts_that_claim_a_name_at_once_one_gets_it() {
    let file = Behaviour { read: 5..50, write: 1_300..4_000, seen_after: 0, stalls: 0, stall: 0 };
    let slow = Behaviour { read: 1_000..20_000, write: 300_000..700_000, ..file.clone() };
    let stalling = Behaviour { stalls: 50, stall: 5_000_000, ..file.clone() };
    for (behaviour, runs) in [(file, 20), (slow, 10), (stalling, 40)] {
        (0..runs).for_each(|seed| claims_at_once(seed, &behaviour));
    }
}

/// The claim is written before anything that makes the version visible.
#[test]
fn a_publication_that_breaks_off_leaves_a_name_to_its_project_or_to_all() {
    let (mut claimed, mut free) = (0, 0);
    for operations in 0.. {
        let forge = Forge::new();
        let failing = FailingStore::after(operations, forge.store.clone());
        let first = TestResponse::of(forge.env_over(failing.clone()), publication("lib", "1.0.0").to(PUBLIC));
        if !failing.failed() {
            assert_eq!(first.status, 200);
            break;
        }
        let is_visible = forge.get("/projects/7/packages/npm/lib").status == 200;
        let is_claimed = record(&forge).0 == json!("7");
        assert!(is_claimed || !is_visible, "operation {operations}");
        let other = forge.send(publication("lib", "1.0.0").to(INTERNAL)).status;
        assert_eq!(other, if is_claimed { 403 } else { 200 }, "operation {operations}");
        let again = forge.send(publication("lib", "1.0.0").to(PUBLIC)).status;
        assert_eq!(again, if is_claimed { 200 } else { 403 }, "operation {operations}");
        if is_claimed { claimed += 1 } else { free += 1 }
    }
    assert!(claimed > 5 && free > 5, "{claimed}, {free}");
}

#[test]
fn lost_replies_change_nothing() {
    let forge = Forge::new();
    let lossy = |forge: &Forge, request: TestRequest| {
        TestResponse::of(forge.env_over(LostReplyStore::over(forge.store.clone())), request)
    };
    assert_eq!(lossy(&forge, publication("lib", "1.0.0").to(PUBLIC)).status, 200);
    assert_eq!(lossy(&forge, allow_request(INTERNAL)).status, 201);
    assert_eq!(record(&forge), (json!("7"), json!([{"project": "8"}])));
    let disallow = request(Method::DELETE, &names("lib/projects/8")).by("maintainer");
    assert_eq!(lossy(&forge, disallow).status, 204);
    assert_eq!(record(&forge), (json!("7"), Value::Null));
    let events = forge.send(request(Method::GET, &names("lib")).by("maintainer")).json()["events"].clone();
    let events: Vec<_> = events.as_array().unwrap().iter().map(|event| event["action"].clone()).collect();
    assert_eq!(events, ["claimed", "allowed", "disallowed"]);
}

/// A forge in which several projects published `lib` before names had owners.
fn earlier_store(versions: &[(u64, &str)]) -> Forge {
    let mut forge = Forge::shared();
    for (project, version) in versions {
        forge.publish(*project, "lib", version);
        forge.advance_clock();
    }
    forge.variables.retain(|(name, _)| *name != "registry_name_policy");
    forge.variables.push(("bootstrap_admin_token", "boot"));
    forge
}

fn maintain(forge: &Forge, name: &str, body: Value) -> Value {
    let path = format!("/maintenance/package-registry/{name}");
    let answer = forge.send(request(Method::POST, &path).by("boot").body(body.to_string()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn the_first_publisher_of_an_earlier_store_owns_the_name_and_the_others_go_on() {
    let forge = earlier_store(&[
        (INTERNAL, "1.0.0"),
        (PUBLIC, "2.0.0"),
        (INTERNAL, "0.9.0"),
        (PRIVATE, "3.0.0"),
        (17, "7.0.0"),
    ]);
    let all = || (vec!["0.9.0".to_owned(), "1.0.0".into(), "2.0.0".into(), "3.0.0".into()], json!({"latest": "0.9.0"}));
    assert_eq!((seen(&forge, "developer"), record(&forge).0), (all(), Value::Null), "a read writes nothing");
    // Where the owner cannot be read, a publisher of before provides the tags, as it did.
    assert_eq!(seen(&forge, ""), (vec!["2.0.0".to_owned()], json!({"latest": "2.0.0"})));
    assert_eq!(forge.send(publication("lib", "2.0.0").to(PRIVATE)).status, 400, "a version of another project");
    maintain(&forge, "gc", json!({"dry_run": true}));
    let expected = (json!("8"), json!([{"project": "9", "unconfirmed": true}, {"project": "7", "unconfirmed": true}]));
    assert_eq!(record(&forge), expected, "the refused publication has recorded them");
    assert_eq!(seen(&forge, "developer"), all());
    assert_eq!(forge.send(publication("lib", "3.0.1").to(PRIVATE)).status, 200);
    forge.project(30, "late", 100, Visibility::Public, FeatureAccess::Enabled);
    assert_eq!(forge.send(publication("lib", "4.0.0").to(30)).status, 403);
    let remarks = maintain(&forge, "fsck", json!({}));
    assert_eq!((&remarks["failed"], &remarks["remarked"]), (&json!(0), &json!(2)), "{remarks}");
}

#[test]
fn maintenance_records_owners_in_bounded_steps_and_only_once() {
    let forge = earlier_store(&[(PUBLIC, "1.0.0"), (INTERNAL, "2.0.0")]);
    maintain(&forge, "gc", json!({"dry_run": true}));
    assert_eq!(record(&forge).0, Value::Null);
    maintain(&forge, "gc", json!({}));
    let expected = (json!("7"), json!([{"project": "8", "unconfirmed": true}]));
    assert_eq!(record(&forge), expected);
    let stored = forge.store.get(OWNER_KEY).unwrap();
    maintain(&forge, "gc", json!({}));
    assert_eq!(forge.store.get(OWNER_KEY).unwrap(), stored);
    forge.store.set(OWNER_KEY, b"{").unwrap();
    maintain(&forge, "gc", json!({}));
    let checked = maintain(&forge, "fsck", json!({}));
    assert!(checked["problems"].to_string().contains(OWNER_KEY), "{checked}");
    assert_eq!(forge.send(publication("lib", "1.0.1").to(PUBLIC)).status, 500, "no owner is guessed");
}

/// Builds without owners ignore the records, as shared names do. A project that published meanwhile has no right.
#[test]
fn a_store_that_an_earlier_build_served_meanwhile_keeps_its_owners() {
    let mut forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge.variables.push(("registry_name_policy", "shared"));
    forge.advance_clock();
    forge.publish(INTERNAL, "lib", "9.9.9");
    assert_eq!(
        seen(&forge, "developer"),
        (vec!["9.9.9".to_owned()], json!({"latest": "9.9.9"})),
        "no worse than before"
    );
    forge.variables.retain(|(name, _)| *name != "registry_name_policy");
    forge.variables.push(("bootstrap_admin_token", "boot"));
    assert_eq!(seen(&forge, "developer"), (vec!["1.0.0".to_owned()], json!({"latest": "1.0.0"})));
    let remarks = maintain(&forge, "fsck", json!({}))["remarks"].clone();
    assert!(remarks.to_string().contains("may not publish it"), "{remarks}");
}

#[test]
fn a_clock_that_goes_back_takes_no_name_away() {
    let mut forge = earlier_store(&[(PUBLIC, "1.0.0"), (INTERNAL, "2.0.0")]);
    forge.now = Timestamp::from_millis(1000);
    assert_eq!(seen(&forge, "developer").1, json!({"latest": "1.0.0"}));
    assert_eq!(forge.send(publication("lib", "0.1.0").to(PRIVATE)).status, 403);
    assert_eq!(record(&forge).0, json!("7"));
}

/// The status, the versions and the operations of a merged answer.
fn cost(forge: &Forge, env: &Env, counting: &CountingStore) -> (u16, usize, u64) {
    let before = counting.operations();
    let answer = TestResponse::of(env.clone(), request(Method::GET, "/groups/acme/-/packages/npm/lib"));
    let versions = answer.json()["versions"].as_object().map_or(0, serde_json::Map::len);
    let _ = forge;
    (answer.status, versions, counting.operations() - before)
}

#[test]
fn a_merged_answer_reads_a_record_and_each_package() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    for number in 1..20 {
        let id = 20_000 + number;
        forge.project(id, &format!("p{number}"), 100, Visibility::Public, FeatureAccess::Enabled);
        allow(&forge, id);
        forge.publish(id, "lib", &format!("{number}.1.0"));
    }
    let counting = CountingStore::over(forge.store.clone());
    let env = forge.env_over(counting.clone());
    let cold = cost(&forge, &env, &counting);
    let warm = cost(&forge, &env, &counting);
    assert_eq!((cold.0, cold.1), (200, 20));
    assert_eq!((warm.1, warm.2), (20, 23), "the token, the catalog's root, the record, and 20 packages");
    assert_eq!(seen(&forge, "developer").1, json!({"latest": "1.0.0"}));
}

#[test]
fn a_name_of_thousands_of_projects_of_an_earlier_store_costs_a_bounded_number_of_reads() {
    let forge = earlier_store(&[(PUBLIC, "1.0.0")]);
    let package = forge.store.get("package-registry/v1/package/7/lib").unwrap().unwrap();
    let more: Vec<u64> = (20_000..20_400).collect();
    for id in &more {
        forge.project(*id, &format!("p{id}"), 100, Visibility::Public, FeatureAccess::Enabled);
        forge.store.set(&format!("package-registry/v1/package/{id}/lib"), &package).unwrap();
    }
    let all: Vec<u64> = [vec![PUBLIC], more].concat();
    let list = json!({"projects": all, "by_publication": true}).to_string();
    forge.store.set("package-registry/v1/name/lib", list.as_bytes()).unwrap();
    let counting = CountingStore::over(forge.store.clone());
    let env = forge.env_over(counting.clone());
    let (cold, warm) = (cost(&forge, &env, &counting), cost(&forge, &env, &counting));
    assert_eq!((cold.0, cold.1, warm.0), (200, 1, 200));
    assert!(warm.2 < 300, "{} operations", warm.2);
    maintain(&forge, "gc", json!({}));
    assert_eq!(record(&forge).0, json!("7"), "of equal times, the lowest id");
}

#[test]
fn of_one_version_in_two_projects_the_owner_s_is_served() {
    let forge = Forge::shared();
    let file = |content: &[u8]| tarball("lib", "1.0.0", content);
    for (project, content) in [(PUBLIC, &b"owner's"[..]), (INTERNAL, b"second")] {
        assert_eq!(forge.send(publication_of("lib", "1.0.0", &file(content)).to(project)).status, 200);
    }
    let forge = Forge { variables: vec![UNLIMITED], ..forge };
    forge.publish(INTERNAL, "lib", "1.1.0");
    let document = forge.get("/groups/acme/-/packages/npm/lib").json();
    let time = document["time"].as_object().unwrap();
    assert_eq!((document["versions"].as_object().unwrap().len(), time.len()), (2, 4));
    let integrity = format!("sha512-{}", STANDARD.encode(Sha512::digest(file(b"owner's"))));
    assert_eq!(document["versions"]["1.0.0"]["dist"]["integrity"], integrity);
    let one = forge.get("/groups/acme/-/packages/npm/lib/1.0.0").json();
    assert_eq!(one["dist"]["integrity"], integrity);
    let served = forge.get("/groups/acme/-/packages/npm/lib/-/lib-1.0.0.tgz");
    assert!(served.body == file(b"owner's"));
    assert!(forge.get("/projects/8/packages/npm/lib/-/lib-1.0.0.tgz").body == file(b"second"));
}

#[test]
fn jobs_and_deploy_tokens_do_not_decide_whose_a_name_is() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge.token("job", Subject::Job { user_id: 5, project_id: PUBLIC, running: true }, &[]);
    forge.token("deploy", Subject::Deployment(Source::Group(100)), &["write_package_registry"]);
    forge.token("reads", Subject::User(5), &["read_api"]);
    for token in ["job", "deploy", "reads"] {
        assert_eq!(forge.send(allow_request(INTERNAL).by(token)).status, 403, "{token}");
        assert_eq!(forge.send(request(Method::DELETE, &names("lib")).by(token)).status, 403, "{token}");
    }
    assert_eq!(forge.send(request(Method::GET, &names("lib")).by("reads")).status, 200);
    allow(&forge, INTERNAL);
    for body in ["", "[]", "{", "7", r#"{"project_id":[8]}"#] {
        let answer = forge.send(request(Method::POST, &names("lib/projects")).by("maintainer").body(body));
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
    }
    let long = request(Method::POST, &names("lib/projects")).by("maintainer").body(vec![b' '; 5000]);
    assert_eq!(forge.send(long).status, 413);
    for path in ["", "@acme", "lib/x", "lib/projects/8/x", "lib/projects/x", "li%20b"] {
        let status = forge.send(request(Method::DELETE, &names(path)).by("maintainer")).status;
        assert!([400, 404].contains(&status), "{path}: {status}");
    }
}

#[test]
fn shared_names_have_no_owners() {
    let forge = Forge::shared();
    forge.publish(PUBLIC, "lib", "1.0.0");
    assert!(forge.store.keys().iter().all(|key| !key.contains("/v1/owner/")));
    let text = "names have no owners here: registry_name_policy is shared";
    forge.send(request(Method::GET, &names("lib"))).is_refused(404, text);
    forge.send(allow_request(INTERNAL)).is_refused(404, text);
}

/// A user's own namespace is a top-level namespace, too.
#[test]
fn a_personal_namespace_has_names() {
    let forge = Forge::new();
    let namespace = user::by_id(&forge.env(), 4).unwrap().unwrap().namespace_id;
    for (id, path) in [(40, "one"), (41, "two")] {
        forge.project(id, path, namespace, Visibility::Public, FeatureAccess::Enabled);
    }
    forge.publish(40, "@developer/lib", "1.0.0");
    assert_eq!(forge.send(publication("@developer/lib", "2.0.0").to(41)).status, 403);
    let path = "/projects/41/packages/npm/-/package_name_owners/@developer%2flib";
    let transfer = request(Method::PUT, path).body(json!({"project_id": 41}).to_string());
    assert_eq!(forge.send(transfer).status, 200);
    forge.publish(41, "@developer/lib", "2.0.0");
    assert_eq!(forge.get("/packages/npm/@developer%2flib").json()["dist-tags"], json!({"latest": "2.0.0"}));
}

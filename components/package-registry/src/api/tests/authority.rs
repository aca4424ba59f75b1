//! Rights that end while the body of a request arrives.

use super::*;
use directory::setting;

/// The answer to a request whose half body has arrived when `change` happens. The instance has cached the caller and
/// the project.
fn send_slowly(forge: &Forge, mut sent: TestRequest, change: impl Fn(&Forge) + 'static) -> TestResponse {
    let env = forge.env();
    TestResponse::of(env.clone(), request(Method::GET, "/projects/7/packages/npm/none"));
    let other = Forge {
        store: forge.store.clone(),
        variables: forge.variables.clone(),
        entropy: forge.entropy.clone(),
        now: forge.now,
    };
    let chunks = std::mem::take(&mut sent.body);
    let whole: Vec<u8> = chunks.into_iter().flat_map(Result::unwrap).collect();
    let (first, second) = whole.split_at(whole.len() / 2);
    let halves = [first, second].map(Bytes::copy_from_slice).into_iter().enumerate();
    let body = halves.map(move |(number, half)| {
        if number == 1 {
            change(&other);
        }
        Ok(half)
    });
    TestResponse::with_body(env, sent, Body::pull(body))
}

/// A way to lose rights, its change of the forge, and the status of the following requests.
type Loss = (&'static str, fn(&Forge), u16);

const LOSSES: [Loss; 9] = [
    ("the token is revoked", |forge| token::revoke(&forge.env(), &Fingerprint::of(b"maintainer")).unwrap(), 401),
    ("the token is deleted", |forge| token::save(&forge.env(), &Fingerprint::of(b"maintainer"), None).unwrap(), 401),
    ("the token loses its scope", |forge| forge.token("maintainer", Subject::User(5), &["read_api"]), 403),
    ("the user is blocked", |forge| forge.user(5, "maintainer", UserState::Blocked), 403),
    ("the user is deleted, and another one has the id", another_user, 401),
    ("the user is demoted", |forge| forge.join(5, Source::Group(100), Some(Role::Reporter)), 403),
    ("the user is no member any more", |forge| forge.join(5, Source::Group(100), None), 403),
    ("the registry is closed", close_registry, 403),
    ("the project is deleted", delete_project, 404),
];

fn another_user(forge: &Forge) {
    forge.import(|changes| changes.delete_user(5), || dependents::delete_user(&forge.env(), 5).unwrap());
    forge.user(5, "somebody", UserState::Active);
    forge.join(5, Source::Group(100), Some(Role::Owner));
}

fn close_registry(forge: &Forge) {
    forge.project(PUBLIC, "web", 100, Visibility::Public, FeatureAccess::Disabled);
}

fn delete_project(forge: &Forge) {
    forge
        .import(|changes| changes.delete_project(PUBLIC), || dependents::delete_project(&forge.env(), PUBLIC).unwrap());
}

/// The registry's stored keys and values.
fn records(forge: &Forge) -> Vec<(String, Option<Vec<u8>>)> {
    let keys = forge.store.keys().into_iter().filter(|key| key.starts_with("package-registry/"));
    keys.map(|key| (key.clone(), kit::store::Store::get(&forge.store, &key).unwrap())).collect()
}

#[test]
fn a_publication_is_refused_without_a_trace() {
    for name in ["lib", "@acme/lib"] {
        for (loss, change, status) in LOSSES {
            let forge = Forge::new();
            let file = tarball(name, "1.0.0", &vec![7; 3 << 20]);
            let sent = publication_of(name, "1.0.0", &file).to(PUBLIC).by("maintainer");
            assert_eq!(send_slowly(&forge, sent, change).status, status, "{name}: {loss}");
            assert_eq!(records(&forge), [], "{name}: {loss}");
        }
    }
}

#[test]
fn changes_to_a_package_are_refused_after_a_loss_of_rights() {
    for (loss, change, status) in LOSSES {
        let forge = Forge::new();
        forge.publish(PUBLIC, "lib", "1.0.0");
        forge.publish(PUBLIC, "lib", "1.1.0");
        let path = "/projects/7/packages/npm/lib";
        let mut document = forge.get(path).json();
        let revision = document["_rev"].as_str().unwrap().to_owned();
        let tag = request(Method::PUT, "/projects/7/packages/npm/-/package/lib/dist-tags/beta").body("\"1.0.0\"");
        document["versions"]["1.0.0"]["deprecated"] = json!("broken");
        let deprecation = request(Method::PUT, path).body(document.to_string());
        document["versions"].as_object_mut().unwrap().remove("1.0.0");
        let unpublication = request(Method::PUT, &format!("{path}/-rev/{revision}")).body(document.to_string());
        for sent in [tag, deprecation, unpublication] {
            let forge = Forge { store: forge.store.snapshot(), ..Forge::new() };
            let (of, before) = (sent.path.clone(), records(&forge));
            assert_eq!(send_slowly(&forge, sent.by("maintainer"), change).status, status, "{of}: {loss}");
            assert!(records(&forge) == before, "{of}: {loss}");
        }
    }
}

#[test]
fn a_project_that_is_archived_takes_no_publication() {
    let forge = Forge::new();
    let archive = |forge: &Forge| {
        let env = forge.env();
        let write = || {
            let archived = NewProject { archived: true, ..forge.new_project(PUBLIC, "web", 100, Visibility::Public) };
            project::save(&env, archived).unwrap();
        };
        forge.import(|changes| changes.project(PUBLIC), write);
    };
    assert_eq!(send_slowly(&forge, publication("lib", "1.0.0").to(PUBLIC), archive).status, 403);
    assert_eq!(records(&forge), []);
}

#[test]
fn a_name_that_is_protected_meanwhile_takes_no_publication() {
    let forge = Forge::new();
    let protect = |forge: &Forge| {
        let rules = json!({
            "package_protection_rules": [{"package_name_pattern": "*", "minimum_access_level_for_push": "admin"}],
        });
        setting::save(&forge.env(), rules.as_object().unwrap()).unwrap();
    };
    send_slowly(&forge, publication("lib", "1.0.0").to(PUBLIC), protect).is_refused(403, "Package protected.");
}

/// The request names the project that has the id now, and is answered as a new request.
#[test]
fn of_a_project_that_is_deleted_and_made_again_the_present_one_gets_the_version() {
    let forge = Forge::new();
    let answer = send_slowly(&forge, publication("lib", "1.0.0").to(PUBLIC), |forge| {
        delete_project(forge);
        forge.project(PUBLIC, "web", 100, Visibility::Public, FeatureAccess::Enabled);
    });
    assert_eq!((answer.status, forge.get("/projects/7/packages/npm/lib/1.0.0").status), (200, 200));
}

#[test]
fn a_change_that_takes_no_authority_refuses_nothing() {
    let forge = Forge::new();
    let answer = send_slowly(&forge, publication("lib", "1.0.0").to(PUBLIC), |forge| {
        forge.join(2, Source::Group(100), None);
        forge.join(4, Source::Project(PUBLIC), Some(Role::Owner));
    });
    assert_eq!((answer.status, forge.get("/projects/7/packages/npm/lib/1.0.0").status), (200, 200));
}

#[test]
fn an_administrator_who_is_blocked_meanwhile_collects_no_garbage() {
    let forge = Forge::new();
    let root = NewUser { is_admin: true, ..forge.new_user(7, "root", UserState::Active) };
    forge.import(|changes| changes.user(7, None), || user::save(&forge.env(), root).unwrap());
    forge.token("root", Subject::User(7), &["api"]);
    let sent = || request(Method::POST, "/maintenance/package-registry/gc").by("root").body(r#"{"cursor":null}"#);
    assert_eq!(forge.send(sent()).status, 200);
    let demote = |forge: &Forge| forge.user(7, "root", UserState::Active);
    assert_eq!(send_slowly(&forge, sent(), demote).status, 403);
}

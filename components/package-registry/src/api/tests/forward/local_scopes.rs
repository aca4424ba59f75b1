//! Scopes that are, or were, the paths of groups and users.

use super::*;
use crate::api::forward::is_local_scope;
use directory::namespace;

/// A user's namespace is top-level, too: packages of its scope are looked up there.
#[test]
fn a_scope_of_a_user_never_leaves() {
    let forge = forge();
    let maker = NewUser {
        id: 50,
        username: "maker".into(),
        name: "maker".into(),
        commit_email: None,
        state: UserState::Active,
        is_admin: false,
        external: false,
        bot: false,
        namespace_id: Some(400),
        details: Details::default(),
    };
    forge.import(|changes| changes.user(50, Some(400)), || user::save(&forge.env(), maker).unwrap());
    forge.token("maker", Subject::User(50), &["api"]);
    forge.project(77, "things", 400, Visibility::Public, FeatureAccess::Enabled);
    assert_eq!(forge.send(publication("@maker/lib", "1.0.0").to(77).by("maker")).status, 200);
    for (name, status) in [("@maker/lib", 200), ("@MAKER/other", 404), ("@makers/lib", 302)] {
        assert_eq!(forge.get(&format!("/packages/npm/{name}")).status, status, "{name}");
    }
    for (name, status) in [("@maker/lib", 404), ("@maker/other", 404), ("@makers/other", 307)] {
        let path = "/packages/npm/-/npm/v1/security/advisories/bulk";
        let answer = forge.send(request(Method::POST, path).body(json!({name: ["1.0.0"]}).to_string()));
        assert_eq!(answer.status, status, "{name}");
    }
}

/// Lock files with its package names outlive a group and a user.
#[test]
fn a_scope_of_a_deleted_group_or_user_never_leaves() {
    let forge = forge();
    let delete_group = |id| {
        forge.import(|all| all.delete_group(id), || dependents::delete_group(&forge.env(), id).unwrap());
    };
    forge.group(300, "gone", Vec::new());
    forge.group(301, "before", Vec::new());
    forge.group(301, "after", Vec::new());
    forge.group(302, "moved", Vec::new());
    forge.import(|all| all.group(302), || forge.save_group(302, "moved", Some(301), Visibility::Public, Vec::new()));
    forge.group(303, "inner", Vec::new());
    forge.user(50, "leaver", UserState::Active);
    forge.user(50, "left", UserState::Active);
    delete_group(300);
    delete_group(301);
    forge.import(|all| all.delete_user(50), || dependents::delete_user(&forge.env(), 50).unwrap());
    // The next group and user with the ids have other paths.
    forge.group(300, "next", Vec::new());
    forge.user(50, "newcomer", UserState::Active);
    let scopes = ["gone", "GONE", "before", "after", "moved", "leaver", "left", "next", "newcomer"];
    for scope in scopes {
        let name = format!("@{scope}/x");
        for prefix in ["/projects/7", "/groups/acme/-", "", "/projects/404"] {
            let answer = forge.get(&format!("{prefix}/packages/npm/{name}"));
            assert_eq!((answer.status, answer.header("location")), (404, ""), "{prefix} {name}");
        }
        let audit = request(Method::POST, "/packages/npm/-/npm/v1/security/advisories/bulk");
        assert_eq!(forge.send(audit.body(json!({name: ["1.0.0"]}).to_string())).status, 404, "{scope}");
    }
    // Another group can take the path, and can be deleted, too.
    forge.group(304, "gone", Vec::new());
    let found = namespace::find(&forge.env(), "gone").unwrap().map(|group| group.id);
    assert_eq!((found, forge.get("/packages/npm/@gone/x").status), (Some(304), 404));
    delete_group(304);
    assert_eq!(forge.get("/packages/npm/@gone/x").status, 404);
    // A path that no group and no user had is forwarded, even below a deleted group.
    forge.import(|all| all.group(305), || forge.save_group(305, "below", Some(303), Visibility::Public, Vec::new()));
    delete_group(303);
    assert_eq!(["@below/x", "@far/x"].map(|name| forge.get(&format!("/packages/npm/{name}")).status), [302, 302]);
}

/// A scope that is longer than a key can be is no group's or user's path.
#[test]
fn a_scope_that_is_no_path_is_not_looked_up() {
    let forge = forge();
    let long = "a".repeat(2000);
    for scope in [&*long, "-x", "x.git", "~x"] {
        let failing = kit::testing::FailingStore::after(0, forge.store.clone());
        assert_eq!(is_local_scope(&forge.env_over(failing), scope), Ok(false), "{scope}");
        assert_eq!(forge.get(&format!("/packages/npm/@{scope}/x")).status, 302, "{scope}");
    }
}

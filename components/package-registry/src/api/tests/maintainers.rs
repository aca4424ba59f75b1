//! Maintainers in metadata.

use super::*;

const PATH: &str = "/projects/7/packages/npm/lib";

fn names(forge: &Forge, path: &str) -> Vec<String> {
    let document = forge.get(path).json();
    let maintainers = document["maintainers"].as_array().unwrap_or_else(|| panic!("{document}"));
    assert!(maintainers.iter().all(|one| one["email"] == ""));
    maintainers.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn maintainers_come_from_the_project_and_not_from_the_document() {
    let forge = Forge::new();
    let publication = publication("lib", "1.0.0").change(|document| {
        document["maintainers"] = json!([{"name": "stranger", "email": "s@example.com"}]);
        document["versions"]["1.0.0"]["maintainers"] = json!([{"name": "stranger", "email": "s@example.com"}]);
    });
    assert_eq!(forge.send(publication.to(PUBLIC)).status, 200);
    assert_eq!(names(&forge, PATH), ["maintainer"], "inherited from the group");
    forge.join(6, Source::Project(PUBLIC), Some(Role::Owner));
    assert_eq!(names(&forge, PATH), ["outsider", "maintainer"], "the highest role first");
    assert_eq!(names(&forge, "/groups/acme/-/packages/npm/lib"), ["outsider", "maintainer"]);
    forge.join(5, Source::Group(100), Some(Role::Developer));
    assert_eq!(names(&forge, PATH), ["outsider"]);
}

#[test]
fn members_whom_the_caller_may_not_see_are_left_out() {
    let forge = Forge::new();
    forge.publish(17, "lib", "1.0.0");
    forge.join(5, Source::Group(200), None);
    forge.join(4, Source::Group(101), Some(Role::Maintainer));
    forge.group(200, "other", vec![Share { group_id: 101, role: Role::Maintainer, expires_at: None }]);
    let get = |path: &str, user: &str| {
        forge.send(request(Method::GET, &format!("/projects/17/packages/npm/{path}")).by(user)).json()
    };
    for user in ["developer", "", "outsider", "guest"] {
        let expected = if ["developer", "guest"].contains(&user) { vec!["maintainer", "developer"] } else { vec![] };
        let names = |people: &Value| -> Vec<Value> {
            let mut names: Vec<_> = people.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
            names.sort_by_key(|name| std::cmp::Reverse(name.to_string()));
            names
        };
        assert_eq!(names(&get("lib", user)["maintainers"]), expected, "{user}: the invited group is private");
        let found = get("-/v1/search?text=lib", user);
        assert_eq!(found["objects"][0]["package"]["maintainers"].as_array().unwrap().len(), expected.len(), "{user}");
    }
}

#[test]
fn public_packages_of_a_private_project_name_its_members_to_those_who_may_read_it() {
    let forge = Forge::new();
    forge.publish(PRIVATE, "lib", "1.0.0");
    forge.project(PRIVATE, "core", 101, Visibility::Private, FeatureAccess::Public);
    let path = format!("/projects/{PRIVATE}/packages/npm/lib");
    let get = |user: &str| forge.send(request(Method::GET, &path).by(user)).json()["maintainers"].clone();
    assert_eq!(get("guest"), json!([{"name": "maintainer", "email": ""}]));
    for user in ["", "outsider"] {
        assert_eq!(get(user), json!([]), "{user}");
    }
}

#[test]
fn a_changed_member_changes_the_entity_tag_of_the_full_form_only() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let env = forge.env();
    let tag = |accept: &str| {
        let answer = TestResponse::of(env.clone(), request(Method::GET, PATH).with("accept", accept));
        answer.header("etag").to_owned()
    };
    let (full, abbreviated) = ("application/json", "application/vnd.npm.install-v1+json");
    let before = [full, abbreviated].map(tag);
    assert_eq!([full, abbreviated].map(tag), before);
    forge.join(6, Source::Project(PUBLIC), Some(Role::Guest));
    assert_eq!([full, abbreviated].map(tag), before, "a guest is no maintainer");
    forge.join(6, Source::Project(PUBLIC), Some(Role::Maintainer));
    let after = [full, abbreviated].map(tag);
    assert!(after[0] != before[0] && after[1] == before[1], "{before:?} {after:?}");
}

#[test]
fn invited_groups_and_expired_memberships_and_blocked_users() {
    let forge = Forge::new();
    forge.publish(17, "lib", "1.0.0");
    let path = "/projects/17/packages/npm/lib";
    let later = Timestamp::from_millis(forge.now.millis() + 5000);
    let invite = |role| forge.group(200, "other", vec![Share { group_id: 100, role, expires_at: Some(later) }]);
    forge.join(5, Source::Group(200), None);
    assert_eq!(names(&forge, path), Vec::<String>::new());
    invite(Role::Maintainer);
    assert_eq!(names(&forge, path), ["maintainer"]);
    let mut env = forge.env();
    env.now = later;
    let document = TestResponse::of(env, request(Method::GET, path)).json();
    assert_eq!(document["maintainers"], json!([]), "the invitation has ended");
    forge.user(5, "maintainer", UserState::Blocked);
    assert_eq!(names(&forge, path), Vec::<String>::new());
    forge.user(5, "renamed", UserState::Active);
    assert_eq!(names(&forge, path), ["renamed"]);
    invite(Role::Developer);
    assert_eq!(names(&forge, path), Vec::<String>::new());
}

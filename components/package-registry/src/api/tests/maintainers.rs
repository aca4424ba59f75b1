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

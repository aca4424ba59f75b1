//! Versions of users who were deleted.

use super::*;
use kit::store::Store as _;

/// The publisher of `lib` in a search and in the list.
fn shown(forge: &Forge) -> (Value, Value) {
    let found = forge.send(request(Method::GET, "/projects/7/packages/npm/-/v1/search?text=lib").by("guest")).json();
    let listed = forge.send(request(Method::GET, "/projects/7/packages").by("guest")).json();
    (found["objects"][0]["package"]["publisher"]["username"].clone(), listed[0]["creator_id"].clone())
}

/// Deletes the developer, whose id another user gets.
fn replace_developer(forge: &Forge) {
    directory::dependents::delete_user(&forge.env(), 4).unwrap();
    forge.user(4, "mallory", UserState::Active);
    forge.join(4, Source::Group(100), Some(Role::Developer));
    forge.token("mallory", Subject::User(4), &["api"]);
}

#[test]
fn versions_of_a_deleted_user_do_not_name_the_next_user() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    assert_eq!(shown(&forge), (json!("developer"), json!(4)));
    replace_developer(&forge);
    assert_eq!(shown(&forge), (Value::Null, Value::Null));
    let again = publication("lib", "1.0.0").to(PUBLIC).by("mallory");
    forge.send(again).is_refused(403, "Package already exists.");
    for _ in 0..2 {
        let answer = forge.send(publication("lib", "1.0.1").to(PUBLIC).by("mallory"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(shown(&forge), (json!("mallory"), Value::Null), "the list has the older one first");
}

#[test]
fn records_of_earlier_builds_name_the_user_who_has_the_id() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let id_of = |key: &String| key.strip_prefix("package-registry/v1/upload/").is_some_and(|id| !id.contains('/'));
    let key = forge.store.keys().into_iter().find(id_of).unwrap();
    let mut record: Value = serde_json::from_slice(&forge.store.get(&key).unwrap().unwrap()).unwrap();
    let incarnation = record.as_object_mut().unwrap().remove("publisher_incarnation");
    assert_eq!(incarnation, Some(json!("")), "the first user with the id");
    forge.store.set(&key, record.to_string().as_bytes()).unwrap();
    replace_developer(&forge);
    assert_eq!(shown(&forge), (json!("mallory"), json!(4)));
    assert_eq!(forge.send(publication("lib", "1.0.0").to(PUBLIC).by("mallory")).status, 200);
}

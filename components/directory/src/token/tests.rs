use super::*;
use crate::store::UserTokensRecord;
use crate::testing::{forge, new_token};
use kit::Timestamp;
use kit::testing::{LostReplyStore, MemoryStore, env};
use std::rc::Rc;

fn fingerprint(text: &str) -> Fingerprint {
    Fingerprint::of(text.as_bytes())
}

fn new(name: &str) -> NewPersonalToken {
    let scopes = vec!["api".to_owned()];
    NewPersonalToken { name: name.into(), description: "for tests".into(), scopes, expires_at: None }
}

fn names(env: &Env, user_id: u64) -> Vec<String> {
    of_user(env, user_id).unwrap().into_iter().map(|token| token.token.name).collect()
}

/// A token in the store of a build that did not list tokens.
fn save_unlisted(env: &Env, text: &str, token: Token) {
    store::write(env, &Key::Token(&fingerprint(text)), Some(TokenRecord::from(token))).unwrap();
}

fn rotated(env: &Env, old: &PersonalToken, text: &str) -> Option<PersonalToken> {
    match rotate(env, old, &fingerprint(text), Timestamp::from_millis(env.now.millis() + 1000)).unwrap() {
        Rotation::Done(new) => Some(new),
        Rotation::AlreadyRevoked | Rotation::TooManyTokens => None,
    }
}

/// An administrator who repeats an import does not intend to bring back a leaked token.
#[test]
fn a_revoked_token_stays_revoked_unless_it_is_said_otherwise() {
    let env = forge();
    let fingerprint = Fingerprint::of(b"leaked");
    let again = || save_keeping_revocation(&env, &fingerprint, new_token(Subject::User(2), &["api"])).unwrap();
    let is_revoked = || find(&env, &fingerprint).unwrap().unwrap().revoked;
    again();
    assert!(!is_revoked());
    revoke(&env, &fingerprint).unwrap();
    again();
    assert!(is_revoked());
    save(&env, &fingerprint, Some(new_token(Subject::User(2), &["api"]))).unwrap();
    assert!(!is_revoked());
    revoke(&env, &fingerprint).unwrap();
    save_keeping_revocation(&env, &fingerprint, new_token(Subject::User(3), &["api"])).unwrap();
    assert!(!is_revoked(), "another user's");
}

#[test]
fn a_token_is_found_by_id_by_text_and_among_its_users() {
    let env = forge();
    let one = create(&env, 2, &fingerprint("one"), new("one")).unwrap().unwrap();
    let two = create(&env, 2, &fingerprint("two"), new("two")).unwrap().unwrap();
    create(&env, 3, &fingerprint("three"), new("three")).unwrap().unwrap();
    assert_eq!(names(&env, 2), ["one", "two"]);
    assert!(one.id < two.id && TokenId::parse(one.id.get()) == one.id && one.id.user_id == 2);
    let found = by_id(&env, two.id).unwrap().unwrap();
    assert_eq!((found.token.name.as_str(), found.description.as_str()), ("two", "for tests"));
    assert_eq!(found.created_at, Some(env.now));
    assert_eq!(by_fingerprint(&env, &fingerprint("one")).unwrap().unwrap().id, one.id);
    assert!(by_fingerprint(&env, &fingerprint("no")).unwrap().is_none());
    assert!(by_id(&env, TokenId::parse(99)).unwrap().is_none());
}

#[test]
fn an_import_lists_a_token_once_and_a_deleted_one_not_at_all() {
    let env = forge();
    for scopes in [&["api"], &["read_api"]] {
        save(&env, &fingerprint("t"), Some(new_token(Subject::User(2), scopes))).unwrap();
    }
    let listed = of_user(&env, 2).unwrap();
    assert_eq!((listed.len(), &listed[0].token.scopes), (1, &vec!["read_api".to_owned()]));
    save(&env, &fingerprint("t"), Some(new_token(Subject::User(3), &["api"]))).unwrap();
    assert_eq!((names(&env, 2).len(), names(&env, 3).len()), (0, 1), "it belongs to another user now");
    save(&env, &fingerprint("t"), None).unwrap();
    assert_eq!((names(&env, 2).len(), names(&env, 3).len()), (0, 0));
    let again = create(&env, 3, &fingerprint("u"), new("u")).unwrap().unwrap();
    assert_eq!(again.id.number, 2, "a number is given once");
}

#[test]
fn after_the_highest_number_the_first_free_one_is_given() {
    let env = forge();
    let highest = TokenId::MAX_NUMBER;
    let numbers = |texts: &[&str]| -> Vec<u64> {
        texts.iter().map(|text| create(&env, 2, &fingerprint(text), new(text)).unwrap().unwrap().id.number).collect()
    };
    assert_eq!(numbers(&["a", "b", "c"]), [1, 2, 3]);
    save(&env, &fingerprint("b"), None).unwrap();
    store::update(&env, &Key::UserTokens(2), |tokens: Option<UserTokensRecord>| UserTokensRecord {
        last: highest - 1,
        ..tokens.unwrap()
    })
    .unwrap();
    assert_eq!(numbers(&["d", "e", "f"]), [highest, 2, 4]);
    assert_eq!(names(&env, 2), ["a", "e", "c", "f", "d"], "by id");
    let tokens = store::read::<UserTokensRecord>(&env, &Key::UserTokens(2)).unwrap().unwrap();
    let by_age: Vec<_> = list::by_age(&tokens).map(|entry| entry.fingerprint.clone()).collect();
    assert_eq!(by_age.last(), Some(&fingerprint("f").to_hex()));
    assert_eq!(by_age.first(), Some(&fingerprint("d").to_hex()));
}

#[test]
fn tokens_of_earlier_builds_are_listed_at_the_first_question() {
    let env = forge();
    for number in 0..2500 {
        save_unlisted(&env, &format!("t{number}"), new_token(Subject::User(2 + number % 2), &["api"]));
    }
    save_unlisted(&env, "deploy", new_token(Subject::Deployment(crate::member::Source::Group(10)), &[]));
    create(&env, 2, &fingerprint("new"), new("new")).unwrap().unwrap();
    assert_eq!((names(&env, 2).len(), names(&env, 3).len()), (1251, 1250));
    let old = by_fingerprint(&env, &fingerprint("t0")).unwrap().unwrap();
    assert_eq!((old.id.user_id, old.created_at), (2, None));
    let ids: Vec<u64> = of_user(&env, 2).unwrap().iter().map(|token| token.id.get()).collect();
    save_unlisted(&env, "after", new_token(Subject::User(2), &["api"]));
    let found = of_user(&env, 2).unwrap().iter().map(|token| token.id.get()).collect::<Vec<_>>();
    assert_eq!(found, ids, "it is done once");
}

#[test]
fn a_scope_that_is_named_twice_is_stored_once() {
    let env = forge();
    let scopes = || ["read_api", "api", "read_api", "api"].map(str::to_owned).to_vec();
    let created = create(&env, 2, &fingerprint("new"), NewPersonalToken { scopes: scopes(), ..new("ci") }).unwrap();
    assert_eq!(created.unwrap().token.scopes, ["read_api", "api"]);
    save(&env, &fingerprint("old"), Some(new_token(Subject::User(2), &["api", "api"]))).unwrap();
    let stored = |text: &str| find(&env, &fingerprint(text)).unwrap().unwrap().scopes;
    assert_eq!((stored("new"), stored("old")), (vec!["read_api".to_owned(), "api".to_owned()], vec!["api".to_owned()]));
}

#[test]
fn a_rotation_revokes_the_old_token_and_happens_once() {
    let env = forge();
    let old = create(&env, 2, &fingerprint("old"), new("ci")).unwrap().unwrap();
    let new = rotated(&env, &old, "new").unwrap();
    assert_eq!((new.token.name.as_str(), new.description.as_str()), ("ci", "for tests"));
    assert!(find(&env, &fingerprint("old")).unwrap().unwrap().revoked);
    assert!(!find(&env, &fingerprint("new")).unwrap().unwrap().revoked);
    assert!(rotated(&env, &old, "other").is_none(), "decided on a token that another request has rotated since");
    assert!(find(&env, &fingerprint("other")).unwrap().is_none(), "and leaves nothing");
    assert_eq!(names(&env, 2).len(), 2);
}

#[test]
fn a_rotation_whose_swaps_are_reported_lost_happens_once() {
    let store = MemoryStore::default();
    let lossy = Env { store: Rc::new(LostReplyStore::over(store.clone())), ..env(store, &[]) };
    let old = create(&lossy, 2, &fingerprint("old"), new("ci")).unwrap().unwrap();
    let new = rotated(&lossy, &old, "new").unwrap();
    assert_eq!(of_user(&lossy, 2).unwrap().len(), 2);
    assert!(!find(&lossy, &new.fingerprint).unwrap().unwrap().revoked);
}

#[test]
fn the_reuse_of_a_rotated_token_revokes_the_last_of_its_line() {
    let env = forge();
    let first = create(&env, 2, &fingerprint("1"), new("ci")).unwrap().unwrap();
    let second = rotated(&env, &first, "2").unwrap();
    rotated(&env, &second, "3").unwrap();
    let is_revoked = |text: &str| find(&env, &fingerprint(text)).unwrap().unwrap().revoked;
    revoke_successors(&env, &fingerprint("3")).unwrap();
    assert!(!is_revoked("3"), "an active token is no evidence");
    save(&env, &fingerprint("1"), Some(Token { revoked: true, ..first.token.clone() })).unwrap();
    revoke_successors(&env, &fingerprint("1")).unwrap();
    assert!(is_revoked("3"), "also after an import of the first");
}

#[test]
fn a_user_with_the_most_tokens_loses_the_oldest_that_is_of_no_use() {
    let env = forge();
    let texts: Vec<String> = (1..=MAX_TOKENS).map(|number| format!("t{number}")).collect();
    let mut listed = store::UserTokensRecord { last: MAX_TOKENS as u64, ..store::UserTokensRecord::default() };
    for (number, text) in (1..).zip(&texts) {
        let fingerprint = fingerprint(text).to_hex();
        let entry = store::UserTokenRecord { fingerprint, description: String::new(), created_at: None };
        listed.tokens.insert(number, entry);
        save_unlisted(&env, text, new_token(Subject::User(2), &["api"]));
    }
    store::write(&env, &Key::UserTokens(2), Some(listed)).unwrap();
    assert!(create(&env, 2, &fingerprint("x"), new("x")).unwrap().is_none(), "all are in use");
    for text in ["t7", "t9"] {
        revoke(&env, &fingerprint(text)).unwrap();
    }
    assert!(create(&env, 2, &fingerprint("x"), new("x")).unwrap().is_some());
    let is_present = |text: &str| find(&env, &fingerprint(text)).unwrap().is_some();
    assert_eq!((is_present("t7"), is_present("t9"), names(&env, 2).len()), (false, true, MAX_TOKENS));
    // Tokens of a deleted user do not count for the next user with the id.
    crate::user::delete(&env, 2).unwrap();
    assert_eq!(names(&env, 2), [""; 0]);
    crate::user::save(&env, crate::testing::new_user(2, "next")).unwrap();
    assert!(create(&env, 2, &fingerprint("y"), new("y")).unwrap().is_some());
    assert_eq!((is_present("t1"), is_present("t2"), names(&env, 2)), (false, true, vec!["y".to_owned()]));
}

#[test]
fn the_public_key_of_a_token_is_not_its_fingerprint() {
    let key = fingerprint("t").public_key();
    assert!(key.len() == 64 && key != fingerprint("t").to_hex());
}

//! Tokens and the lists of their users.

use super::*;
use crate::consistency::repair;
use crate::token::{self, LAST_USE_MINUTES, NewPersonalToken};

/// A token's record that replaces the record of another token makes that token work for another user.
#[test]
fn a_token_that_its_user_does_not_see_is_reported() {
    let (store, env) = forge();
    issue_to(&env, "of another", 2, &["api"]);
    token::of_user(&env, 1).unwrap();
    assert_eq!(problems(&env), [""; 0]);
    let record = store.get(&key_of("t")).unwrap().unwrap();
    store.set(&key_of("of another"), &record).unwrap();
    let text = "a token of user 1 works and is not listed among the user's; import it again".to_owned();
    assert_eq!(texts(&later(&env, 1)), [(Key::HIDDEN_TOKEN.to_owned(), text)]);
}

fn key_of(text: &str) -> String {
    format!("{PREFIX}token/{}", Fingerprint::of(text.as_bytes()).to_hex())
}

fn create(env: &Env, text: &str) -> token::PersonalToken {
    let (description, scopes) = (String::new(), vec!["api".into()]);
    let new = NewPersonalToken { name: text.into(), description, scopes, expires_at: None };
    token::create(env, 2, &Fingerprint::of(text.as_bytes()), new).unwrap().unwrap()
}

/// The problem of user 2's tokens with these ids.
fn lost(ids: &[u64], what: &str) -> Vec<(String, String)> {
    let text = |id| format!("token {id} is listed, and its record is missing{what}");
    ids.iter().map(|id| (format!("{PREFIX}tokens/2"), text(id))).collect()
}

const ADVICE: &str = "; import it again, or remove it from the list by `hexad fsck --repair`";

fn repaired(env: &Env) -> Vec<(String, String)> {
    repaired_by(|cursor| repair::step(env, cursor).unwrap())
}

#[test]
fn a_listed_token_that_was_there_and_is_lost_is_reported_and_taken_off_the_list() {
    let (store, env) = forge();
    // A token of a build that did not list tokens, a used one, one from a rotation, and a sound one.
    issue_to(&env, "unlisted", 2, &["api"]);
    store.delete(&format!("{PREFIX}tokens/2")).unwrap();
    let unlisted = token::of_user(&env, 2).unwrap().remove(0);
    let used = create(&env, "used");
    let counting = Env { variables: Rc::new([(LAST_USE_MINUTES, "10")].into_iter().collect()), ..env.clone() };
    token::record_use(&counting, &used.fingerprint);
    let end = Timestamp::from_millis(env.now.millis() + 1000);
    let rotation = token::rotate(&env, &create(&env, "old"), &Fingerprint::of(b"new"), end).unwrap();
    let token::Rotation::Done(new) = rotation else { panic!("it is active") };
    create(&env, "sound");
    assert_eq!(problems(&env), [""; 0]);
    ["unlisted", "used", "new"].into_iter().for_each(|text| store.delete(&key_of(text)).unwrap());
    let ids = [unlisted.id, used.id, new.id].map(token::TokenId::get);
    assert_eq!(texts(&later(&env, 1)), lost(&ids, ADVICE));
    assert_eq!(repaired(&later(&env, 2)), lost(&ids, ", and it is not listed any more"));
    assert_eq!(problems(&later(&env, 3)), [""; 0]);
    let names: Vec<String> = token::of_user(&env, 2).unwrap().into_iter().map(|token| token.token.name).collect();
    assert_eq!(names, ["old", "sound"]);
    assert_eq!(repaired(&later(&env, 4)), []);
}

/// A token is listed before its record is written. A request that ends in between leaves such an entry.
#[test]
fn a_listed_token_whose_creation_was_interrupted_is_no_problem() {
    let (store, env) = forge();
    issue_to(&env, "first", 2, &["api"]);
    token::of_user(&env, 2).unwrap();
    let mut interrupted = 0;
    for operations in 0.. {
        let text = format!("broken off {operations}");
        let failing = FailingStore::after(operations, store.clone());
        let env = Env { store: Rc::new(failing.clone()), ..env.clone() };
        token::save(&env, &Fingerprint::of(text.as_bytes()), Some(new_token(Subject::User(2), &["api"]))).ok();
        if !failing.failed() {
            break;
        }
        interrupted += usize::from(store.get(&key_of(&text)).unwrap().is_none());
    }
    assert!(interrupted > 3);
    let list = || store.get(&format!("{PREFIX}tokens/2")).unwrap();
    let before = list();
    assert_eq!(problems(&later(&env, 1)), [""; 0]);
    assert_eq!(repaired(&later(&env, 2)), []);
    assert_eq!(list(), before, "its writer may be about to write the record");
}

#[test]
fn the_lost_tokens_of_a_deleted_user_are_no_problem() {
    let (store, env) = forge();
    let used = create(&env, "used");
    let counting = Env { variables: Rc::new([(LAST_USE_MINUTES, "10")].into_iter().collect()), ..env.clone() };
    token::record_use(&counting, &used.fingerprint);
    store.delete(&key_of("used")).unwrap();
    change(&env, |changes| changes.delete_user(2), || dependents::delete_user(&env, 2).unwrap());
    assert_eq!(problems(&later(&env, 1)), [""; 0]);
}

/// The problems of a token's record and of the list that names it.
#[test]
fn tokens_that_cannot_be_read_are_named_by_their_ids_and_ended_by_a_repair() {
    let (store, env) = forge();
    let damaged = create(&env, "damaged");
    create(&env, "sound");
    issue(&env, "deploy", new_token(Subject::Deployment(crate::member::Source::Group(10)), &["read_package_registry"]));
    token::of_user(&env, 2).unwrap();
    ["damaged", "deploy"].into_iter().for_each(|text| store.set(&key_of(text), b"{\"subj").unwrap());

    let error = token::of_user(&later(&env, 1), 2).err().unwrap().to_string();
    let text = format!("`{}` cannot be read: it is token {}: ", Key::HIDDEN_TOKEN, damaged.id.get());
    assert!(error.starts_with(&text), "{error}");
    let sound = token::by_fingerprint(&later(&env, 1), &Fingerprint::of(b"sound")).unwrap().unwrap();
    assert_eq!(sound.token.name, "sound");

    let list = format!("token {} is listed, and its record cannot be read", damaged.id.get());
    let hidden = || (Key::HIDDEN_TOKEN.to_owned(), "no token".to_owned());
    let advice = "; restore it from a backup, or revoke the token by `hexad fsck --repair`";
    let named = |what: &str| (format!("{PREFIX}tokens/2"), format!("{list}{what}"));
    assert_eq!(texts(&later(&env, 1)), [hidden(), hidden(), named(advice)]);
    let unlisted = "a token on no list that can be read could not be read, and is removed";
    let ended = [named(", and it is revoked"), (Key::HIDDEN_TOKEN.to_owned(), unlisted.to_owned())];
    assert_eq!(repaired(&later(&env, 2)), ended);

    let later = later(&env, 3);
    assert_eq!((problems(&later), repaired(&later)), (vec![], vec![]));
    let tokens = token::of_user(&later, 2).unwrap().into_iter().map(|token| (token.id, token.token.revoked));
    assert_eq!(tokens.collect::<Vec<_>>(), [(damaged.id, true), (sound.id, false)]);
    assert!(token::find(&later, &Fingerprint::of(b"deploy")).unwrap().is_none());
}

/// For example a record of a later build.
#[test]
fn tokens_of_an_unknown_kind_are_left_by_a_repair() {
    let (store, env) = forge();
    let listed = create(&env, "listed");
    issue(&env, "deploy", new_token(Subject::Deployment(crate::member::Source::Group(10)), &["read_package_registry"]));
    let record = br#"{"kind":"later","name":"n","scopes":[]}"#;
    ["listed", "deploy"].into_iter().for_each(|text| store.set(&key_of(text), record).unwrap());
    let left = format!(
        "token {} is listed, and its record cannot be read, and it is left: another build may be able to",
        listed.id.get()
    );
    for day in 1..3 {
        assert_eq!(repaired(&later(&env, day)), [(format!("{PREFIX}tokens/2"), left.clone())]);
    }
    for text in ["listed", "deploy"] {
        assert_eq!(store.get(&key_of(text)).unwrap().unwrap(), record);
    }
}

/// The first read of a list migrates the tokens of earlier builds. It fails until all are listed.
#[test]
fn a_token_of_an_earlier_build_that_cannot_be_read_is_removed_by_a_repair() {
    let (store, env) = forge();
    issue_to(&env, "sound", 2, &["api"]);
    issue_to(&env, "damaged", 2, &["api"]);
    store.delete(&format!("{PREFIX}tokens/2")).unwrap();
    store.set(&key_of("damaged"), b"{").unwrap();
    assert!(token::of_user(&env, 2).is_err());
    assert_eq!(repaired(&later(&env, 1)).len(), 1);
    let later = later(&env, 2);
    let left: Vec<String> =
        token::of_user(&later, 2).unwrap().into_iter().map(|token| token.fingerprint.to_hex()).collect();
    assert_eq!(left, [Fingerprint::of(b"sound").to_hex()]);
}

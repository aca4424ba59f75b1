//! Tokens and the lists of their users.

use super::*;
use crate::token;

/// The record of one token in the place of another's makes that one work for another user.
#[test]
fn a_token_that_its_user_does_not_see_is_reported() {
    let (store, env) = forge();
    issue(&env, "of another", new_token(Subject::User(2), &["api"]));
    token::of_user(&env, 1).unwrap();
    assert_eq!(problems(&env), [""; 0]);
    let key = |text: &str| format!("{PREFIX}token/{}", Fingerprint::of(text.as_bytes()).to_hex());
    let record = store.get(&key("t")).unwrap().unwrap();
    store.set(&key("of another"), &record).unwrap();
    let text = "a token of user 1 works and is not listed among the user's; import it again".to_owned();
    assert_eq!(texts(&later(&env, 1)), [(HIDDEN_TOKEN.to_owned(), text)]);
}

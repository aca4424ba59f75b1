//! The single records: settings and features.

use super::*;
use crate::{feature, setting};
use serde_json::{Map, json};

#[test]
fn settings_and_features_that_are_lost_are_reported_until_they_are_set_again() {
    let (store, env) = forge();
    assert_eq!(problems(&env), [""; 0], "they were not set");
    let set = || {
        setting::save(&env, &Map::from_iter([("license".to_owned(), json!("free"))])).unwrap();
        feature::save(&env, "dark", |gates| gates.boolean = true).unwrap();
    };
    set();
    assert_eq!(problems(&later(&env, 1)), [""; 0]);
    let keys = [format!("{PREFIX}features"), format!("{PREFIX}settings")];
    keys.iter().for_each(|key| store.delete(key).unwrap());
    let found = texts(&later(&env, 2));
    assert_eq!(found.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), keys);
    assert!(found.iter().all(|(_, text)| text == MISSING_SINGLETON), "{found:?}");
    set();
    assert_eq!(problems(&later(&env, 3)), [""; 0]);
}

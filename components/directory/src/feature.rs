//! Feature flags and their gates.

pub use crate::model::feature::{Actor, FeatureGates, FeatureState};

use crate::save_error::{InvalidRecord, SaveError};
use crate::store::{self, Key};
use kit::Env;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The most bytes of JSON of all features together, which are one record.
const MAX_BYTES: usize = 256 * 1024;

/// The gates of features, by name.
pub type Features = BTreeMap<String, FeatureGates>;

/// Whether a feature is on for `actor`; without an actor, for all callers. 1 read. A feature without a record is off.
pub fn is_enabled(env: &Env, name: &str, actor: Option<Actor>) -> Result<bool, StoreError> {
    let features = all(env)?;
    Ok(is_enabled_in(&features, env, name, actor))
}

/// Like [`is_enabled`], for features that were already read.
pub fn is_enabled_in(features: &Features, env: &Env, name: &str, actor: Option<Actor>) -> bool {
    let chance = || {
        let mut random = [0; 8];
        env.entropy.fill(&mut random);
        (u64::from_le_bytes(random) % 100) as u8
    };
    features.get(name).is_some_and(|gates| gates.is_open(name, actor, chance))
}

/// Every recorded feature, by name. 1 read; an instance decodes them once.
pub fn all(env: &Env) -> Result<Rc<Features>, StoreError> {
    Ok(store::read_cached(env, &Key::Features, |features: Features| features)?.unwrap_or_default())
}

/// Changes the gates of a feature and returns them.
pub fn save(env: &Env, name: &str, change: impl Fn(&mut FeatureGates)) -> Result<FeatureGates, SaveError> {
    let mut saved = FeatureGates::default();
    store::try_update(env, &Key::Features, |current: Option<Features>| {
        let mut features = current.unwrap_or_default();
        let gates = features.entry(name.to_owned()).or_default();
        change(gates);
        saved = gates.clone();
        if serde_json::to_string(&features).map_or(0, |text| text.len()) > MAX_BYTES {
            return Err(SaveError::from(InvalidRecord::TooLarge { records: "features", limit: MAX_BYTES }));
        }
        Ok(features)
    })?;
    Ok(saved)
}

/// Removes a deleted user, group or project from the gates of all features. So they are off for the next record with
/// its id. 1 read.
pub(crate) fn forget_actor(env: &Env, actor: Actor) -> Result<(), StoreError> {
    forget_actors(env, &[actor].into())
}

/// Like [`forget_actor`], for several actors.
pub fn forget_actors(env: &Env, actors: &BTreeSet<Actor>) -> Result<(), StoreError> {
    let actors: BTreeSet<String> = actors.iter().map(Actor::to_string).collect();
    if !all(env)?.values().any(|gates| !gates.actors.is_disjoint(&actors)) {
        return Ok(());
    }
    store::update(env, &Key::Features, |current: Option<Features>| {
        let mut features = current.unwrap_or_default();
        features.values_mut().for_each(|gates| gates.actors.retain(|actor| !actors.contains(actor)));
        features
    })
}

/// Deletes a feature.
pub fn delete(env: &Env, name: &str) -> Result<(), StoreError> {
    store::update(env, &Key::Features, |current: Option<Features>| {
        let mut features = current.unwrap_or_default();
        features.remove(name);
        features
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::testing::{MemoryStore, env};

    fn enabled(gates: FeatureGates, actor: Option<Actor>) -> bool {
        let env = env(MemoryStore::default(), &[]);
        save(&env, "f", |current| *current = gates.clone()).unwrap();
        is_enabled(&env, "f", actor).unwrap()
    }

    #[test]
    fn any_open_gate_suffices() {
        let closed = FeatureGates::default;
        let one = BTreeSet::from(["User:1".to_owned()]);
        assert!(!enabled(closed(), Some(Actor::User(1))));
        assert!(enabled(FeatureGates { boolean: true, ..closed() }, None));
        assert!(enabled(FeatureGates { actors: one.clone(), ..closed() }, Some(Actor::User(1))));
        assert!(!enabled(FeatureGates { actors: one.clone(), ..closed() }, Some(Actor::Group(1))));
        assert!(!enabled(FeatureGates { actors: one, ..closed() }, None));
        assert!(enabled(FeatureGates { percentage_of_actors: 100, ..closed() }, Some(Actor::User(9))));
        assert!(!enabled(FeatureGates { percentage_of_actors: 100, ..closed() }, None));
        assert!(enabled(FeatureGates { percentage_of_time: 100, ..closed() }, None));
        assert!(!enabled(
            FeatureGates { groups: BTreeSet::from(["staff".to_owned()]), ..closed() },
            Some(Actor::User(1))
        ));
    }

    #[test]
    fn a_percentage_of_actors_is_always_the_same_ones_and_about_that_many() {
        let gates = FeatureGates { percentage_of_actors: 25, ..FeatureGates::default() };
        let open = |name: &str| -> Vec<u64> {
            (0..10_000).filter(|id| gates.is_open(name, Some(Actor::User(*id)), || 99)).collect()
        };
        assert_eq!(open("f"), open("f"));
        assert_ne!(open("f"), open("g"));
        assert!((2_300..2_700).contains(&open("f").len()), "{}", open("f").len());
        let wider = FeatureGates { percentage_of_actors: 50, ..FeatureGates::default() };
        assert!(open("f").iter().all(|id| wider.is_open("f", Some(Actor::User(*id)), || 99)), "growing keeps those in");
    }

    #[test]
    fn a_percentage_of_time_is_a_chance() {
        let gates = FeatureGates { percentage_of_time: 30, ..FeatureGates::default() };
        assert!(gates.is_open("f", None, || 29) && !gates.is_open("f", None, || 30));
    }

    #[test]
    fn states() {
        let none = FeatureGates::default;
        assert_eq!(none().state(), FeatureState::Off);
        assert_eq!(FeatureGates { percentage_of_time: 100, ..none() }.state(), FeatureState::On);
        assert_eq!(FeatureGates { percentage_of_time: 99, ..none() }.state(), FeatureState::Conditional);
        assert_eq!(FeatureGates { percentage_of_actors: 100, ..none() }.state(), FeatureState::Conditional);
    }

    #[test]
    fn a_feature_without_a_record_is_off() {
        let env = env(MemoryStore::default(), &[]);
        assert!(!is_enabled(&env, "f", None).unwrap());
        save(&env, "f", |gates| gates.boolean = true).unwrap();
        assert!(is_enabled(&env, "f", None).unwrap() && !is_enabled(&env, "g", None).unwrap());
        delete(&env, "f").unwrap();
        assert!(!is_enabled(&env, "f", None).unwrap() && all(&env).unwrap().is_empty());
    }

    #[test]
    fn a_forgotten_actor_is_in_no_gate() {
        let env = env(MemoryStore::default(), &[]);
        let actors = ["Project:7", "Project:70"].map(str::to_owned);
        save(&env, "f", |gates| gates.actors = actors.clone().into()).unwrap();
        save(&env, "g", |gates| gates.boolean = true).unwrap();
        forget_actor(&env, Actor::Project(7)).unwrap();
        let on = |id| is_enabled(&env, "f", Some(Actor::Project(id))).unwrap();
        assert_eq!((on(7), on(70)), (false, true));
        assert_eq!(all(&env).unwrap()["g"], FeatureGates { boolean: true, ..FeatureGates::default() });
    }

    #[test]
    fn the_text_of_an_actor_is_read_in_one_form() {
        for actor in [Actor::User(1), Actor::Group(20), Actor::Project(u64::MAX)] {
            assert_eq!(Actor::parse(&actor.to_string()), Some(actor));
        }
        for text in
            ["", "User", "User:", "User:01", "User:+1", "user:1", "Role:1", "User:1:2", "User:99999999999999999999"]
        {
            assert_eq!(Actor::parse(text), None, "{text}");
        }
    }

    #[test]
    fn features_together_have_a_bound() {
        let env = env(MemoryStore::default(), &[]);
        let name = "f".repeat(MAX_BYTES);
        let refused = save(&env, &name, |_| {}).unwrap_err();
        assert_eq!(refused, InvalidRecord::TooLarge { records: "features", limit: MAX_BYTES }.into());
    }
}

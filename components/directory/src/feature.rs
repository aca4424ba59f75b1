//! Feature flags: for whom each is switched on.

use crate::save_error::{Rejection, SaveError};
use crate::store::{self, Key};
use kit::Env;
use kit::store::StoreError;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What all features together may take, in bytes of JSON: they are one record.
const MAX_BYTES: usize = 256 * 1024;

/// What switches a feature on. Any one gate that is open suffices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gates {
    /// On for everybody.
    pub boolean: bool,
    /// On for these, for example `User:1` (see [`Actor`]).
    pub actors: BTreeSet<String>,
    /// 0 to 100; always the same actors for the same feature.
    pub percentage_of_actors: u8,
    /// 0 to 100; decided anew each time.
    pub percentage_of_time: u8,
    /// Names of groups of actors. None is defined here: they are kept and shown, and open nothing.
    pub groups: BTreeSet<String>,
}

/// For whom a feature is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    User(u64),
    Group(u64),
    Project(u64),
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::User(id) => write!(f, "User:{id}"),
            Actor::Group(id) => write!(f, "Group:{id}"),
            Actor::Project(id) => write!(f, "Project:{id}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    On,
    Conditional,
    Off,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::On => "on",
            State::Conditional => "conditional",
            State::Off => "off",
        }
    }
}

impl Gates {
    /// On, if on for everybody always. A percentage of actors of 100 still is conditional, as in
    /// the reference service.
    pub fn state(&self) -> State {
        if self.boolean || self.percentage_of_time >= 100 {
            State::On
        } else if *self == Gates::default() {
            State::Off
        } else {
            State::Conditional
        }
    }

    /// The gates as clients see them: the boolean one always, the others if they are open.
    pub fn shown(&self) -> Vec<Value> {
        let gate = |key: &str, value: Value| json!({"key": key, "value": value});
        let mut list = vec![gate("boolean", self.boolean.into())];
        if !self.actors.is_empty() {
            list.push(gate("actors", json!(self.actors)));
        }
        if self.percentage_of_actors > 0 {
            list.push(gate("percentage_of_actors", self.percentage_of_actors.into()));
        }
        if self.percentage_of_time > 0 {
            list.push(gate("percentage_of_time", self.percentage_of_time.into()));
        }
        if !self.groups.is_empty() {
            list.push(gate("groups", json!(self.groups)));
        }
        list
    }

    /// `chance` is a random number below 100.
    fn is_open(&self, name: &str, actor: Option<Actor>, chance: impl FnOnce() -> u8) -> bool {
        let for_actor = |actor: Actor| {
            let actor = actor.to_string();
            // The reference service's choice, so that the same actors are chosen: CRC-32 in
            // thousandths of a percent.
            let draw = crc32fast::hash(format!("{name}{actor}").as_bytes()) % 100_000;
            self.actors.contains(&actor) || draw < u32::from(self.percentage_of_actors) * 1000
        };
        self.boolean
            || actor.is_some_and(for_actor)
            || (self.percentage_of_time > 0 && chance() < self.percentage_of_time)
    }
}

/// Whether a feature is on for `actor`, or if there is none, for everybody. 1 read. A feature of
/// which nothing is recorded is off.
pub fn is_enabled(env: &Env, name: &str, actor: Option<Actor>) -> Result<bool, StoreError> {
    Ok(is_enabled_in(&all(env)?, env, name, actor))
}

/// The same among the features that were read.
pub fn is_enabled_in(features: &BTreeMap<String, Gates>, env: &Env, name: &str, actor: Option<Actor>) -> bool {
    let chance = || {
        let mut random = [0; 8];
        env.entropy.fill(&mut random);
        (u64::from_le_bytes(random) % 100) as u8
    };
    features.get(name).is_some_and(|gates| gates.is_open(name, actor, chance))
}

/// Every recorded feature, by name. 1 read.
pub fn all(env: &Env) -> Result<BTreeMap<String, Gates>, StoreError> {
    let features = store::read::<store::Features>(env, &Key::Features)?.unwrap_or_default();
    Ok(features.into_iter().map(|(name, record)| (name, Gates::from(record))).collect())
}

/// Changes the gates of a feature and returns them.
pub fn save(env: &Env, name: &str, change: impl Fn(&mut Gates)) -> Result<Gates, SaveError> {
    let mut saved = Gates::default();
    store::try_update(env, &Key::Features, |current: Option<store::Features>| {
        let mut features = current.unwrap_or_default();
        let mut gates = features.remove(name).map(Gates::from).unwrap_or_default();
        change(&mut gates);
        saved = gates.clone();
        features.insert(name.to_owned(), gates.into());
        if serde_json::to_string(&features).map_or(0, |text| text.len()) > MAX_BYTES {
            return Err(SaveError::from(Rejection::Full { what: "features", limit: MAX_BYTES }));
        }
        Ok(features)
    })?;
    Ok(saved)
}

/// Forgets a feature.
pub fn delete(env: &Env, name: &str) -> Result<(), StoreError> {
    store::update(env, &Key::Features, |current: Option<store::Features>| {
        let mut features = current.unwrap_or_default();
        features.remove(name);
        features
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::testing::{MemoryStore, env};

    fn enabled(gates: Gates, actor: Option<Actor>) -> bool {
        let env = env(MemoryStore::default(), &[]);
        save(&env, "f", |current| *current = gates.clone()).unwrap();
        is_enabled(&env, "f", actor).unwrap()
    }

    #[test]
    fn any_open_gate_suffices() {
        let nobody = Gates::default;
        let one = BTreeSet::from(["User:1".to_owned()]);
        assert!(!enabled(nobody(), Some(Actor::User(1))));
        assert!(enabled(Gates { boolean: true, ..nobody() }, None));
        assert!(enabled(Gates { actors: one.clone(), ..nobody() }, Some(Actor::User(1))));
        assert!(!enabled(Gates { actors: one.clone(), ..nobody() }, Some(Actor::Group(1))));
        assert!(!enabled(Gates { actors: one, ..nobody() }, None));
        assert!(enabled(Gates { percentage_of_actors: 100, ..nobody() }, Some(Actor::User(9))));
        assert!(!enabled(Gates { percentage_of_actors: 100, ..nobody() }, None));
        assert!(enabled(Gates { percentage_of_time: 100, ..nobody() }, None));
        assert!(!enabled(Gates { groups: BTreeSet::from(["staff".to_owned()]), ..nobody() }, Some(Actor::User(1))));
    }

    #[test]
    fn a_percentage_of_actors_is_always_the_same_ones_and_about_that_many() {
        let gates = Gates { percentage_of_actors: 25, ..Gates::default() };
        let open = |name: &str| -> Vec<u64> {
            (0..10_000).filter(|id| gates.is_open(name, Some(Actor::User(*id)), || 99)).collect()
        };
        assert_eq!(open("f"), open("f"));
        assert_ne!(open("f"), open("g"));
        assert!((2_300..2_700).contains(&open("f").len()), "{}", open("f").len());
        let wider = Gates { percentage_of_actors: 50, ..Gates::default() };
        assert!(open("f").iter().all(|id| wider.is_open("f", Some(Actor::User(*id)), || 99)), "growing keeps those in");
    }

    #[test]
    fn a_percentage_of_time_is_a_chance() {
        let gates = Gates { percentage_of_time: 30, ..Gates::default() };
        assert!(gates.is_open("f", None, || 29) && !gates.is_open("f", None, || 30));
    }

    #[test]
    fn states() {
        let none = Gates::default;
        assert_eq!(none().state(), State::Off);
        assert_eq!(Gates { percentage_of_time: 100, ..none() }.state(), State::On);
        assert_eq!(Gates { percentage_of_time: 99, ..none() }.state(), State::Conditional);
        assert_eq!(Gates { percentage_of_actors: 100, ..none() }.state(), State::Conditional);
    }

    #[test]
    fn what_is_not_recorded_is_off_and_deleting_forgets() {
        let env = env(MemoryStore::default(), &[]);
        assert!(!is_enabled(&env, "f", None).unwrap());
        save(&env, "f", |gates| gates.boolean = true).unwrap();
        assert!(is_enabled(&env, "f", None).unwrap() && !is_enabled(&env, "g", None).unwrap());
        delete(&env, "f").unwrap();
        assert!(!is_enabled(&env, "f", None).unwrap() && all(&env).unwrap().is_empty());
    }

    #[test]
    fn features_together_have_a_bound() {
        let env = env(MemoryStore::default(), &[]);
        let name = "f".repeat(MAX_BYTES);
        let refused = save(&env, &name, |_| {}).unwrap_err();
        assert_eq!(refused, Rejection::Full { what: "features", limit: MAX_BYTES }.into());
    }
}

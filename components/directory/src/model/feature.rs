//! Feature flags.

use super::is_default;
use super::membership::Source;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;

/// The gates of a feature. It is on if any gate is open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FeatureGates {
    /// On for all actors.
    #[serde(skip_serializing_if = "is_default")]
    pub boolean: bool,
    /// On for these actors, for example `User:1` (see [`Actor`]).
    #[serde(skip_serializing_if = "is_default")]
    pub actors: BTreeSet<String>,
    /// 0 to 100; always the same actors for the same feature.
    #[serde(skip_serializing_if = "is_default")]
    pub percentage_of_actors: u8,
    /// 0 to 100; drawn at each check.
    #[serde(skip_serializing_if = "is_default")]
    pub percentage_of_time: u8,
    /// Names of groups of actors. No group is defined here, so the names are stored and rendered but open no gate.
    #[serde(skip_serializing_if = "is_default")]
    pub groups: BTreeSet<String>,
}

/// A user, group or project that a feature can be on for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    User(u64),
    Group(u64),
    Project(u64),
}

impl From<Source> for Actor {
    fn from(source: Source) -> Self {
        match source {
            Source::Group(id) => Actor::Group(id),
            Source::Project(id) => Actor::Project(id),
        }
    }
}

impl Actor {
    /// Parses the text of [`fmt::Display`] in exactly that form, because gates compare texts.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once(':')?;
        let id = id.parse().ok()?;
        let actor = match kind {
            "User" => Actor::User(id),
            "Group" => Actor::Group(id),
            "Project" => Actor::Project(id),
            _ => return None,
        };
        (actor.to_string() == text).then_some(actor)
    }

    /// The actor's name for a sentence.
    pub fn name(self) -> String {
        match self {
            Actor::User(id) => format!("user {id}"),
            Actor::Group(id) => format!("group {id}"),
            Actor::Project(id) => format!("project {id}"),
        }
    }
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
pub enum FeatureState {
    On,
    Conditional,
    Off,
}

impl FeatureState {
    pub fn as_str(self) -> &'static str {
        match self {
            FeatureState::On => "on",
            FeatureState::Conditional => "conditional",
            FeatureState::Off => "off",
        }
    }
}

impl FeatureGates {
    /// `On` if the feature is on for all actors at all times. A percentage of actors of 100 is conditional, as in the
    /// reference service.
    pub fn state(&self) -> FeatureState {
        if self.boolean || self.percentage_of_time >= 100 {
            FeatureState::On
        } else if *self == FeatureGates::default() {
            FeatureState::Off
        } else {
            FeatureState::Conditional
        }
    }

    /// The gates in a response: always the boolean gate, and the others if they are open.
    pub fn to_json(&self) -> Vec<Value> {
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

    /// Whether a gate is open. `chance` is a random number below 100.
    pub(crate) fn is_open(&self, name: &str, actor: Option<Actor>, chance: impl FnOnce() -> u8) -> bool {
        let for_actor = |actor: Actor| {
            let actor = actor.to_string();
            // Chooses the same actors as the reference service: CRC-32 in thousandths of a percent.
            let draw = crc32fast::hash(format!("{name}{actor}").as_bytes()) % 100_000;
            self.actors.contains(&actor) || draw < u32::from(self.percentage_of_actors) * 1000
        };
        self.boolean
            || actor.is_some_and(for_actor)
            || (self.percentage_of_time > 0 && chance() < self.percentage_of_time)
    }
}

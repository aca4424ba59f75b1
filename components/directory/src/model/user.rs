//! People and bots.

use super::incarnation::Incarnation;
use super::is_default;
use super::namespace::Details;
use serde::{Deserialize, Serialize};

/// A user. The record has all fields except the id, which is in its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// From 1; 0 is the built-in administrator (see [`crate::caller`]).
    #[serde(skip)]
    pub id: u64,
    pub username: String,
    pub name: String,
    /// The author's address in commits on behalf of the user. If absent, a no-reply address is used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub commit_email: Option<String>,
    pub state: UserState,
    #[serde(default, rename = "admin", skip_serializing_if = "is_default")]
    pub is_admin: bool,
    /// Whether the user sees internal groups and projects only as a member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub external: bool,
    /// A service account, or the user of a project's or group's access token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bot: bool,
    /// The personal namespace, whose path is the username.
    pub namespace_id: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub incarnation: Incarnation,
}

impl User {
    pub fn key(&self) -> UserKey {
        UserKey { id: self.id, incarnation: self.incarnation.clone() }
    }
}

/// The name of a user in records of other areas. The user's actions do not belong to a later user with the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserKey {
    pub id: u64,
    pub incarnation: Incarnation,
}

impl UserKey {
    /// The first user with an id. Records without an incarnation name this user.
    pub fn first(id: u64) -> Self {
        UserKey { id, incarnation: Incarnation::default() }
    }
}

/// The state that decides whether a user may use the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "&str")]
pub enum UserState {
    Active,
    Blocked,
    /// Blocked; only administrators see the user's issues.
    Banned,
    Deactivated,
    PendingApproval,
}

impl UserState {
    /// Parses a state in the reference service's words.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "active" => Some(UserState::Active),
            "blocked" | "ldap_blocked" => Some(UserState::Blocked),
            "banned" => Some(UserState::Banned),
            "deactivated" => Some(UserState::Deactivated),
            "blocked_pending_approval" => Some(UserState::PendingApproval),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            UserState::Active => "active",
            UserState::Blocked => "blocked",
            UserState::Banned => "banned",
            UserState::Deactivated => "deactivated",
            UserState::PendingApproval => "blocked_pending_approval",
        }
    }
}

/// An unknown state in a record gives no access.
impl From<String> for UserState {
    fn from(word: String) -> Self {
        UserState::parse(&word).unwrap_or(UserState::Blocked)
    }
}

impl From<UserState> for &str {
    fn from(state: UserState) -> Self {
        state.as_str()
    }
}

/// A user to be saved. Without `namespace_id`, an existing user keeps the present one.
pub struct NewUser {
    pub id: u64,
    pub username: String,
    pub name: String,
    pub commit_email: Option<String>,
    pub state: UserState,
    pub is_admin: bool,
    pub external: bool,
    pub bot: bool,
    pub namespace_id: Option<u64>,
    /// The details of the user's personal namespace.
    pub details: Details,
}

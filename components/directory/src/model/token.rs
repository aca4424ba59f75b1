//! Tokens.

use super::membership::{Source, is_current};
use kit::Timestamp;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::ops::RangeInclusive;
use subtle::ConstantTimeEq;

/// The SHA-256 of a token. Only the storage key has its text form, so it is never logged.
#[derive(Clone, Copy)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub fn of(token: &[u8]) -> Self {
        Fingerprint(Sha256::digest(token).into())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The fingerprint from [`Fingerprint::to_hex`]; `None` if the text has another form.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Fingerprint(bytes))
    }

    /// The hex digits. Every request with a token needs them, and `hex::encode` takes ten times as long.
    pub(crate) fn to_hex(self) -> String {
        let mut digits = [0; 64];
        let _ = hex::encode_to_slice(self.0, &mut digits);
        // The lossy conversion would check each digit separately.
        String::from_utf8(digits.to_vec()).unwrap_or_default()
    }

    /// A name of the token that reveals neither its text nor its fingerprint: the SHA-256 of the fingerprint, in hex.
    pub fn public_key(&self) -> String {
        hex::encode(Sha256::digest(self.0))
    }
}

impl PartialEq for Fingerprint {
    /// Compares in constant time.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub subject: Subject,
    /// The display name.
    pub name: String,
    pub scopes: Vec<String>,
    /// The token is expired from this moment on.
    pub expires_at: Option<Timestamp>,
    pub revoked: bool,
}

impl Token {
    /// Whether the token itself is valid at the moment `now`.
    pub fn is_active(&self, now: Timestamp) -> bool {
        !self.revoked && is_current(self.expires_at, now)
    }

    /// Removes repeated scopes, keeping the order of first mentions.
    pub fn with_unique_scopes(mut self) -> Self {
        let mut seen = HashSet::new();
        self.scopes.retain(|scope| seen.insert(scope.clone()));
        self
    }
}

/// A personal token with the details that its owner sees.
#[derive(Clone)]
pub struct PersonalToken {
    /// Unique among personal tokens. The id contains the user's id ([`TokenId`]).
    pub id: TokenId,
    pub token: Token,
    pub description: String,
    /// `None` for a token that was stored before creation was recorded.
    pub created_at: Option<Timestamp>,
    /// The last use, to within some minutes; `None` if no use was recorded or read.
    pub last_used_at: Option<Timestamp>,
    pub fingerprint: Fingerprint,
}

impl PersonalToken {
    /// As [`Token::is_active`].
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.token.is_active(now)
    }
}

/// The id of a personal token: the user's id and the number of the user's token, in one integer. So a token is found by
/// its id in the user's record. JavaScript reads the ids exactly for users below 2^33.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenId {
    pub user_id: u64,
    pub(crate) number: u64,
}

impl TokenId {
    const NUMBER_BITS: u32 = 20;

    /// The highest id of a user whose tokens have ids.
    pub const MAX_USER_ID: u64 = u64::MAX >> Self::NUMBER_BITS;

    /// The highest number of a token.
    pub(crate) const MAX_NUMBER: u64 = (1 << Self::NUMBER_BITS) - 1;

    pub(crate) fn new(user_id: u64, number: u64) -> Self {
        TokenId { user_id, number }
    }

    /// The range of the ids of all tokens of a user.
    pub fn range_of(user_id: u64) -> RangeInclusive<TokenId> {
        TokenId::new(user_id, 0)..=TokenId::new(user_id, Self::MAX_NUMBER)
    }

    pub fn parse(id: u64) -> Self {
        TokenId { user_id: id >> Self::NUMBER_BITS, number: id & Self::MAX_NUMBER }
    }

    pub fn get(self) -> u64 {
        self.user_id.saturating_mul(1 << Self::NUMBER_BITS).saturating_add(self.number)
    }
}

/// The user, group, project or job that a token authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Personal tokens, and OAuth tokens, which have the same rights.
    User(u64),
    /// A deploy token of a group or project.
    Deployment(Source),
    /// A job of a project, which runs on behalf of a user.
    Job { user_id: u64, project_id: u64, running: bool },
}

/// The scopes of personal tokens in the reference service.
pub const PERSONAL_SCOPES: [&str; 16] = [
    "api",
    "read_api",
    "read_user",
    "create_runner",
    "manage_runner",
    "k8s_proxy",
    "self_rotate",
    "read_repository",
    "write_repository",
    "read_registry",
    "write_registry",
    "read_virtual_registry",
    "write_virtual_registry",
    "read_service_ping",
    "sudo",
    "admin_mode",
];

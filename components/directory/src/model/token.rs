//! Tokens.

use super::membership::Source;
use kit::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The SHA-256 of a token. It has no text form outside the storage key, so that it is never logged.
#[derive(Clone, Copy)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub fn of(token: &[u8]) -> Self {
        Fingerprint(Sha256::digest(token).into())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for Fingerprint {
    /// In constant time.
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

/// The user, group, project or job that a token authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Personal tokens, and OAuth tokens, which have the same rights.
    User(u64),
    /// A deploy token: a group or project itself.
    Deployment(Source),
    /// A job of a project, running on behalf of a user.
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

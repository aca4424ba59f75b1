//! Sessions of operators in a browser, and the one-time codes that begin them.
//!
//! Both are in memory only, few, and end with the host. A session is a random cookie; its value and the codes
//! are kept as digests, so that a comparison reveals nothing by its duration.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::random;

/// Codes that wait to be used, and sessions. One more takes the place of the oldest.
const MAX_CODES: usize = 8;
const MAX_SESSIONS: usize = 16;

const CODE_LIFETIME: Duration = Duration::from_secs(5 * 60);
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Bytes of a random code, cookie, or token of a form.
const RANDOM_BYTES: usize = 32;

type Secret = [u8; 32];

/// The sessions of a listener.
#[derive(Default)]
pub struct Sessions(Mutex<SessionTable>);

#[derive(Default)]
struct SessionTable {
    /// The oldest first.
    codes: VecDeque<Code>,
    sessions: VecDeque<(Secret, Session)>,
}

struct Code {
    digest: Secret,
    actor: String,
    expires: Instant,
}

/// An operator in a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// For the audit log.
    pub actor: String,
    /// What each form of this session has with it.
    pub form_token: String,
    expires: Instant,
}

impl Sessions {
    /// A code with which `actor` can begin a session, once and within five minutes.
    pub fn new_code(&self, actor: &str, now: Instant) -> io::Result<String> {
        let code = random::token(RANDOM_BYTES)?;
        let mut table = self.table(now);
        if table.codes.len() >= MAX_CODES {
            table.codes.pop_front();
        }
        table.codes.push_back(Code { digest: digest(&code), actor: actor.to_owned(), expires: now + CODE_LIFETIME });
        Ok(code)
    }

    /// Uses a code up. Returns its actor; `None` if it is unknown, used or expired.
    pub fn redeem(&self, code: &str, now: Instant) -> Option<String> {
        let mut table = self.table(now);
        let digest = digest(code);
        let position = table.codes.iter().position(|known| known.digest == digest)?;
        table.codes.remove(position).map(|code| code.actor)
    }

    /// Begins a session. Returns the value of its cookie.
    pub fn begin(&self, actor: String, now: Instant) -> io::Result<String> {
        let (cookie, form_token) = (random::token(RANDOM_BYTES)?, random::token(RANDOM_BYTES)?);
        let mut table = self.table(now);
        if table.sessions.len() >= MAX_SESSIONS {
            table.sessions.pop_front();
        }
        table.sessions.push_back((digest(&cookie), Session { actor, form_token, expires: now + SESSION_LIFETIME }));
        Ok(cookie)
    }

    /// The session of a cookie.
    pub fn find(&self, cookie: &str, now: Instant) -> Option<Session> {
        let digest = digest(cookie);
        let table = self.table(now);
        table.sessions.iter().find(|(known, _)| *known == digest).map(|(_, session)| session.clone())
    }

    /// Ends the session of a cookie.
    pub fn end(&self, cookie: &str, now: Instant) {
        let digest = digest(cookie);
        self.table(now).sessions.retain(|(known, _)| *known != digest);
    }

    /// The table, without what has expired.
    fn table(&self, now: Instant) -> MutexGuard<'_, SessionTable> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.codes.retain(|code| code.expires > now);
        table.sessions.retain(|(_, session)| session.expires > now);
        table
    }
}

impl Session {
    /// Whether a form has the token of this session.
    pub fn owns_form(&self, form_token: &str) -> bool {
        digest(form_token) == digest(&self.form_token)
    }
}

fn digest(secret: &str) -> Secret {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_used_once_and_expires() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let code = sessions.new_code("mia", now).unwrap();
        assert_eq!(sessions.redeem("another", now), None);
        assert_eq!(sessions.redeem(&code, now).as_deref(), Some("mia"));
        assert_eq!(sessions.redeem(&code, now), None);
        let code = sessions.new_code("mia", now).unwrap();
        assert_eq!(sessions.redeem(&code, now + CODE_LIFETIME), None);
    }

    #[test]
    fn a_session_ends_by_signing_out_and_by_time() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let (one, other) = (sessions.begin("a".into(), now).unwrap(), sessions.begin("b".into(), now).unwrap());
        let session = sessions.find(&one, now).unwrap();
        assert!(session.owns_form(&session.form_token) && !session.owns_form(&one));
        assert!(!sessions.find(&other, now).unwrap().owns_form(&session.form_token));
        sessions.end(&one, now);
        assert_eq!(sessions.find(&one, now), None);
        assert!(sessions.find(&other, now + SESSION_LIFETIME - Duration::from_secs(1)).is_some());
        assert_eq!(sessions.find(&other, now + SESSION_LIFETIME), None);
    }

    #[test]
    fn both_are_bounded() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let codes: Vec<_> = (0..=MAX_CODES).map(|_| sessions.new_code("a", now).unwrap()).collect();
        assert_eq!(sessions.redeem(&codes[0], now), None);
        assert!(sessions.redeem(&codes[1], now).is_some());
        let cookies: Vec<_> = (0..=MAX_SESSIONS).map(|_| sessions.begin("a".into(), now).unwrap()).collect();
        assert_eq!(sessions.find(&cookies[0], now), None);
        assert!(sessions.find(&cookies[1], now).is_some());
    }
}

//! Sessions of operators in a browser, and the one-time codes that begin them.
//!
//! Both are few, in memory only, and end with the host. A session is a random cookie. The host keeps the cookie's value
//! and the codes as digests, so that the duration of a comparison reveals nothing.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hexad_support::random;
use sha2::{Digest as _, Sha256};

/// The limits of unused codes and of sessions. Above a limit, the oldest is dropped.
const MAX_CODES: usize = 8;
const MAX_SESSIONS: usize = 16;

const CODE_LIFETIME: Duration = Duration::from_secs(5 * 60);
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Bytes of a random code, cookie, or token of a form.
const RANDOM_BYTES: usize = 32;

type SecretDigest = [u8; 32];

/// The sessions of a listener.
#[derive(Default)]
pub struct Sessions(Mutex<SessionTable>);

#[derive(Default)]
struct SessionTable {
    /// The oldest first.
    codes: VecDeque<Code>,
    sessions: VecDeque<(SecretDigest, Session)>,
}

struct Code {
    digest: SecretDigest,
    actor: String,
    /// The cookie of the session that it has begun. A used code is kept until it expires, to recognise a second
    /// use.
    cookie: Option<SecretDigest>,
    expires: Instant,
}

/// The result of redeeming a sign-in code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeUse {
    /// The code has begun a session of the actor, with this cookie.
    Begun { actor: String, cookie: String },
    /// The browser that has the code's session has used the code again.
    Repeated,
    /// Two browsers have used the code, and only one can be the actor's. The code's session is ended.
    UsedTwice { actor: String },
    /// The code is unknown, or has expired.
    Unknown,
}

/// An operator in a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// For the audit log.
    pub actor: String,
    /// The token that each form of this session sends.
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
        let (actor, expires) = (actor.to_owned(), now + CODE_LIFETIME);
        table.codes.push_back(Code { digest: digest(&code), actor, cookie: None, expires });
        Ok(code)
    }

    /// Begins a session by a code, which can be used once. `own_cookie` is the browser's, if it has one.
    pub fn redeem(&self, code: &str, own_cookie: Option<&str>, now: Instant) -> io::Result<CodeUse> {
        let (cookie, form_token) = (random::token(RANDOM_BYTES)?, random::token(RANDOM_BYTES)?);
        let mut table = self.table(now);
        let SessionTable { codes, sessions } = &mut *table;
        let code_digest = digest(code);
        let Some(code) = codes.iter_mut().find(|known| known.digest == code_digest) else {
            return Ok(CodeUse::Unknown);
        };
        let actor = code.actor.clone();
        if let Some(begun) = &code.cookie {
            if own_cookie.is_some_and(|cookie| digest(cookie) == *begun) {
                return Ok(CodeUse::Repeated);
            }
            sessions.retain(|(known, _)| known != begun);
            return Ok(CodeUse::UsedTwice { actor });
        }
        code.cookie = Some(digest(&cookie));
        table.add_session(actor.clone(), &cookie, form_token, now);
        Ok(CodeUse::Begun { actor, cookie })
    }

    /// Begins a session. Returns the value of its cookie.
    pub fn begin(&self, actor: String, now: Instant) -> io::Result<String> {
        let (cookie, form_token) = (random::token(RANDOM_BYTES)?, random::token(RANDOM_BYTES)?);
        self.table(now).add_session(actor, &cookie, form_token, now);
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

    /// The table, without expired codes and sessions.
    fn table(&self, now: Instant) -> MutexGuard<'_, SessionTable> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.codes.retain(|code| code.expires > now);
        table.sessions.retain(|(_, session)| session.expires > now);
        table
    }
}

impl SessionTable {
    fn add_session(&mut self, actor: String, cookie: &str, form_token: String, now: Instant) {
        if self.sessions.len() >= MAX_SESSIONS {
            self.sessions.pop_front();
        }
        self.sessions.push_back((digest(cookie), Session { actor, form_token, expires: now + SESSION_LIFETIME }));
    }
}

impl Session {
    /// Whether a form has the token of this session.
    pub fn owns_form(&self, form_token: &str) -> bool {
        digest(form_token) == digest(&self.form_token)
    }
}

fn digest(secret: &str) -> SecretDigest {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cookie of the session that a code begins.
    fn begin_by_code(sessions: &Sessions, code: &str, now: Instant) -> String {
        let code_use = sessions.redeem(code, None, now).unwrap();
        let CodeUse::Begun { actor, cookie } = code_use else { panic!("{code_use:?}") };
        assert_eq!(actor, "mia");
        cookie
    }

    #[test]
    fn a_code_is_used_once_and_expires() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let code = sessions.new_code("mia", now).unwrap();
        assert_eq!(sessions.redeem("another", None, now).unwrap(), CodeUse::Unknown);
        let cookie = begin_by_code(&sessions, &code, now);
        assert_eq!(sessions.find(&cookie, now).unwrap().actor, "mia");
        let code = sessions.new_code("mia", now).unwrap();
        assert_eq!(sessions.redeem(&code, None, now + CODE_LIFETIME).unwrap(), CodeUse::Unknown);
        assert!(sessions.find(&cookie, now + CODE_LIFETIME).is_some(), "a session outlives its code");
    }

    #[test]
    fn a_second_use_of_a_code_ends_its_session_and_no_other() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let [first, second] = [(); 2].map(|()| sessions.new_code("mia", now).unwrap());
        let [one, other] = [&first, &second].map(|code| begin_by_code(&sessions, code, now));
        assert_eq!(sessions.redeem(&first, Some(&one), now).unwrap(), CodeUse::Repeated);
        assert!(sessions.find(&one, now).is_some());
        for own_cookie in [Some(other.as_str()), None] {
            let again = sessions.redeem(&first, own_cookie, now).unwrap();
            assert_eq!(again, CodeUse::UsedTwice { actor: "mia".into() });
            assert!(sessions.find(&one, now).is_none() && sessions.find(&other, now).is_some());
        }
        assert_eq!(sessions.redeem(&first, None, now + CODE_LIFETIME).unwrap(), CodeUse::Unknown);
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
        let codes: Vec<_> = (0..=MAX_CODES).map(|_| sessions.new_code("mia", now).unwrap()).collect();
        assert_eq!(sessions.redeem(&codes[0], None, now).unwrap(), CodeUse::Unknown);
        begin_by_code(&sessions, &codes[1], now);
        let cookies: Vec<_> = (0..=MAX_SESSIONS).map(|_| sessions.begin("a".into(), now).unwrap()).collect();
        assert_eq!(sessions.find(&cookies[0], now), None);
        assert!(sessions.find(&cookies[1], now).is_some());
    }
}

//! Authentication: the caller of a request, and every refusal of credentials.
//!
//! The first credential of a request decides, in this order:
//! - `PRIVATE-TOKEN` header, `private_token` parameter, `Authorization: Bearer`, `access_token` parameter;
//! - for the package registry also `JOB-TOKEN` header, `job_token` parameter, `Deploy-Token` header;
//! - for the package registry and for git repositories `Authorization: Basic`. The password is a personal or deploy
//!   token, for git also a job token. The username does not matter.
//!
//! An invalid credential is an error even if the request needs no credential. Parameters are read from the query only,
//! because the caller is authenticated before the body is read.
//!
//! The variable `bootstrap_admin_token` holds the token of the built-in administrator, who needs no record and can
//! therefore fill an empty store. If the variable is empty, this administrator does not exist.
//!
//! Invalid credentials count against the client's address ([`INVALID_TOKENS`]).

use crate::member::{self, Memberships, Source};
use crate::model::incarnation::Incarnation;
use crate::namespace::{self, Namespace};
use crate::project::{self, Project};
use crate::token::{self, Fingerprint, IssuedToken, Subject, Token};
use crate::user::{self, User, UserState};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use kit::params::Validation;
use kit::rate_limit::{self, RateLimit};
use kit::store::StoreError;
use kit::{Env, Error, Request};
use serde_json::json;
use std::cell::OnceCell;
use std::rc::Rc;
use subtle::ConstantTimeEq as _;

/// The variable with the built-in administrator's token.
pub const BOOTSTRAP_ADMIN_TOKEN: &str = "bootstrap_admin_token";

/// The header with the expiry of the caller's personal token.
static TOKEN_EXPIRES_AT: HeaderName = HeaderName::from_static("x-token-expires-at");

/// The time before a token's expiry from which responses have the header: 30 days, in milliseconds.
const EXPIRY_NOTICE: i64 = 30 * 24 * 60 * 60 * 1000;

pub enum Caller {
    Anonymous,
    User(Session),
    DeployToken(DeployToken),
    Job(Box<Job>),
}

/// A user, with the scopes of the token.
pub struct Session {
    pub user: Rc<User>,
    pub scopes: Rc<[String]>,
    /// Whether this is the administrator of [`BOOTSTRAP_ADMIN_TOKEN`], who has every scope and no record.
    pub built_in: bool,
    memberships: OnceCell<Rc<Memberships>>,
}

/// A token of a group or project.
pub struct DeployToken {
    pub source: Source,
    incarnation: Incarnation,
    pub scopes: Rc<[String]>,
}

/// A running job. It has its user's role in the projects that accept its project's jobs.
pub struct Job {
    pub session: Session,
    pub project: Project,
}

/// The caller of a request. Errors: 401 for an invalid credential, 403 for a user who is not active, and 429 after too
/// many invalid credentials from the client's address.
///
/// Reads: 0 for an anonymous caller or the built-in administrator, 2 for a user, 1 for a deploy token. For a job 3, and
/// 1 for each namespace. With `Sudo` 1 to 3 more.
pub fn authenticate(env: &Env, request: &Request, accepted: AcceptedTokens) -> Result<Caller, Error> {
    let caller = limit_invalid(env, request, accepted, || find_caller(env, request, accepted))?;
    if !caller.is_anonymous() {
        env.has_known_caller.set(true);
    }
    Ok(caller)
}

fn find_caller(env: &Env, request: &Request, accepted: AcceptedTokens) -> Result<Caller, Error> {
    check_forms(request, accepted)?;
    let caller = match first(request, accepted)? {
        None => Caller::Anonymous,
        Some(credential) => identify(env, &credential, accepted)?,
    };
    match sudo(request) {
        Some(target) => caller.sudo(env, &target),
        None => Ok(caller),
    }
}

fn identify(env: &Env, credential: &Credential, accepted: AcceptedTokens) -> Result<Caller, Error> {
    // The value of a variable may come from a file that ends in a line break.
    let bootstrap = env.variables.get(BOOTSTRAP_ADMIN_TOKEN).map(str::trim).filter(|token| !token.is_empty());
    // In constant time.
    let is_bootstrap = bootstrap.is_some_and(|token| token.as_bytes().ct_eq(&credential.token).into());
    if credential.kind.allows_personal() && is_bootstrap {
        return Ok(Caller::User(Session::built_in()));
    }
    let fingerprint = Fingerprint::of(&credential.token);
    let Some(issued) = token::find_issued(env, &fingerprint)? else {
        return Err(Error::unauthorized());
    };
    let IssuedToken { token, incarnation, .. } = &*issued;
    let scopes = issued.scopes.clone();
    let allowed = match token.subject {
        Subject::User(_) => credential.kind.allows_personal(),
        Subject::Deployment(_) => accepted != AcceptedTokens::Api && credential.kind.allows_deployment(),
        Subject::Job { .. } => credential.kind.allows_job(accepted),
    };
    if !allowed {
        return Err(Error::unauthorized());
    }
    check_validity(env, token)?;
    match token.subject {
        Subject::User(id) => {
            let session = session(env, id, incarnation, scopes)?;
            token::record_use(env, &fingerprint);
            add_expiry_header(env, token);
            Ok(Caller::User(session))
        }
        Subject::Deployment(source) => {
            let present = match source {
                Source::Project(id) => project::by_id(env, id)?.map(|project| project.incarnation),
                Source::Group(id) => namespace::by_id(env, id)?.map(|group| group.incarnation),
            };
            if present.as_ref() != Some(incarnation) {
                return Err(Error::unauthorized());
            }
            Ok(Caller::DeployToken(DeployToken { source, incarnation: incarnation.clone(), scopes }))
        }
        Subject::Job { running: false, .. } => Err(Error::unauthorized()),
        Subject::Job { user_id, project_id, running: true } => {
            let session = session(env, user_id, incarnation, scopes)?;
            let project = project::by_id(env, project_id)?
                .filter(|project| project.incarnation == issued.project_incarnation)
                .ok_or_else(Error::unauthorized)?;
            Ok(Caller::Job(Box::new(Job { session, project })))
        }
    }
}

/// The fingerprint of the personal token that a request presents, even if no such token exists.
pub fn presented_token(request: &Request, accepted: AcceptedTokens) -> Result<Option<Fingerprint>, Error> {
    let credential = first(request, accepted)?;
    let personal = credential.filter(|credential| credential.kind.allows_personal());
    Ok(personal.map(|credential| Fingerprint::of(&credential.token)))
}

fn check_validity(env: &Env, token: &Token) -> Result<(), Error> {
    let invalid = |description: &str| {
        let body = json!({"error": "invalid_token", "error_description": description});
        Err(Error::with_body(StatusCode::UNAUTHORIZED, body))
    };
    if !member::is_current(token.expires_at, env.now) {
        return invalid("Token is expired. You can either do re-authorization or token refresh.");
    }
    if token.revoked {
        return invalid("Token was revoked. You have to re-authorize from the user.");
    }
    Ok(())
}

/// Adds the token's expiry to the response's headers if it is soon.
fn add_expiry_header(env: &Env, token: &Token) {
    let soon = env.now.millis().saturating_add(EXPIRY_NOTICE);
    let Some(end) = token.expires_at.filter(|end| end.millis() < soon) else { return };
    if let Ok(end) = HeaderValue::try_from(end.to_iso()) {
        env.caller_headers.borrow_mut().insert(&TOKEN_EXPIRES_AT, end);
    }
}

/// The session of a user; 401 or 403 unless the user is active and has the token's incarnation.
fn session(env: &Env, user_id: u64, incarnation: &Incarnation, scopes: Rc<[String]>) -> Result<Session, Error> {
    let user = user::shared_by_id(env, user_id)?.filter(|user| user.incarnation == *incarnation);
    let user = user.ok_or_else(Error::unauthorized)?;
    check_state(&user)?;
    Ok(Session::new(user, scopes))
}

fn check_state(user: &User) -> Result<(), Error> {
    let why = match user.state {
        UserState::Active => return Ok(()),
        UserState::Blocked | UserState::Banned => "Your account has been blocked.",
        UserState::Deactivated => "Your account has been deactivated by your administrator.",
        UserState::PendingApproval => "Your account is pending approval from your administrator and hence blocked.",
    };
    Err(Error::message(StatusCode::FORBIDDEN, format!("403 Forbidden - {why}")))
}

/// The user of a request of the generic interface: the errors of [`authenticate`], 401 for an anonymous caller, and 403
/// for a token without a scope.
pub fn api_user(env: &Env, request: &Request) -> Result<Caller, Error> {
    let caller = authenticate(env, request, AcceptedTokens::Api)?;
    caller.user_or_401()?;
    caller.require_scope(api_scopes(&request.method))?;
    Ok(caller)
}

/// The scopes of which a request of the generic interface needs one.
pub fn api_scopes(method: &Method) -> &'static [&'static str] {
    match *method {
        Method::GET | Method::HEAD => &["api", "read_api"],
        _ => &["api"],
    }
}

impl Caller {
    /// The session of a user, or of a job's user.
    pub fn session(&self) -> Option<&Session> {
        match self {
            Caller::User(session) => Some(session),
            Caller::Job(job) => Some(&job.session),
            Caller::Anonymous | Caller::DeployToken(_) => None,
        }
    }

    pub fn user(&self) -> Option<&User> {
        self.session().map(|session| &*session.user)
    }

    /// The user, or 401.
    pub fn user_or_401(&self) -> Result<&User, Error> {
        self.user().ok_or_else(Error::unauthorized)
    }

    /// 401 for an anonymous caller.
    pub fn require_authenticated(&self) -> Result<(), Error> {
        if self.is_anonymous() { Err(Error::unauthorized()) } else { Ok(()) }
    }

    pub fn is_anonymous(&self) -> bool {
        matches!(self, Caller::Anonymous)
    }

    pub fn is_admin(&self) -> bool {
        self.user().is_some_and(|user| user.is_admin)
    }

    /// Whether the caller's token has one of these scopes. Anonymous callers and jobs have no scopes: only roles decide
    /// their access, and this is true.
    pub fn has_scope(&self, acceptable: &[&str]) -> bool {
        let scopes = match self {
            Caller::Anonymous | Caller::Job(_) => return true,
            Caller::User(session) if session.built_in => return true,
            Caller::User(session) => &session.scopes,
            Caller::DeployToken(token) => &token.scopes,
        };
        scopes.iter().any(|scope| acceptable.contains(&scope.as_str()))
    }

    /// 403 `insufficient_scope` unless [`Self::has_scope`]; see [`api_scopes`].
    pub fn require_scope(&self, acceptable: &[&str]) -> Result<(), Error> {
        if self.has_scope(acceptable) {
            return Ok(());
        }
        let body = json!({
            "error": "insufficient_scope",
            "error_description": "The request requires higher privileges than provided by the access token.",
            "scope": acceptable.join(" "),
        });
        Err(Error::with_body(StatusCode::FORBIDDEN, body))
    }

    /// Replaces an administrator by the user in `Sudo`.
    fn sudo(self, env: &Env, target: &str) -> Result<Caller, Error> {
        let forbidden = |why: &str| Error::message(StatusCode::FORBIDDEN, format!("403 Forbidden - {why}"));
        let admin = match &self {
            Caller::User(session) => session,
            Caller::Job(_) => {
                return Err(forbidden("Must be authenticated using an OAuth or personal access token to use sudo"));
            }
            Caller::Anonymous | Caller::DeployToken(_) => return Err(Error::unauthorized()),
        };
        if !admin.user.is_admin {
            return Err(forbidden("Must be admin to use sudo"));
        }
        self.require_scope(&["sudo"])?;
        let Some(user) = user::find(env, target)? else {
            let text = format!("404 User with ID or username '{target}' Not Found");
            return Err(Error::message(StatusCode::NOT_FOUND, text));
        };
        check_state(&user)?;
        // The built-in administrator has every scope, so the new session gets all of them.
        let scopes = match admin.built_in {
            true => token::PERSONAL_SCOPES.map(str::to_owned).into(),
            false => admin.scopes.clone(),
        };
        Ok(Caller::User(Session::new(Rc::new(user), scopes)))
    }
}

impl Session {
    pub(crate) fn new(user: Rc<User>, scopes: Rc<[String]>) -> Self {
        Session { user, scopes, built_in: false, memberships: OnceCell::new() }
    }

    fn built_in() -> Self {
        let user = User {
            id: 0,
            username: "administrator".into(),
            name: "Administrator".into(),
            commit_email: None,
            state: UserState::Active,
            is_admin: true,
            external: false,
            bot: false,
            namespace_id: 0,
            incarnation: Incarnation::default(),
        };
        Session { user: Rc::new(user), scopes: Rc::default(), built_in: true, memberships: OnceCell::new() }
    }

    /// Every direct membership of the user. 1 read, the first time.
    pub fn memberships(&self, env: &Env) -> Result<&Memberships, StoreError> {
        if let Some(memberships) = self.memberships.get() {
            return Ok(memberships);
        }
        let memberships = member::shared_of_user(env, self.user.id)?;
        Ok(self.memberships.get_or_init(|| memberships))
    }
}

impl DeployToken {
    /// Whether the token was made for this project or for a group above it.
    pub fn covers(&self, project: &Project) -> bool {
        self.is_for(Source::Project(project.id), &project.incarnation) || self.covers_group(&project.namespace)
    }

    /// Whether the token was made for this group or for a group above it.
    pub fn covers_group(&self, group: &Namespace) -> bool {
        group.lineage().any(|above| self.is_for(Source::Group(above.id), &above.incarnation))
    }

    fn is_for(&self, source: Source, incarnation: &Incarnation) -> bool {
        self.source == source && self.incarnation == *incarnation
    }
}

/// The variable with the number of distinct invalid credentials that an address may send in a minute; 0: no limit.
pub const INVALID_TOKENS: &str = "registry_rate_limit_invalid_tokens";

const DEFAULT_INVALID_TOKENS: u64 = 100;

/// Every area may write below `token-use/`.
const INVALID_TOKEN_LIMIT: RateLimit =
    RateLimit { variable: INVALID_TOKENS, seconds: 60, keys: "token-use/v1/refused/" };

/// The length, in bytes, from which a token cannot be guessed. Tokens of this service and of the reference service are
/// longer.
const UNGUESSABLE: usize = 20;

/// The time, in milliseconds, for which a recorded use proves that a client knew a token before.
const RECENT_USE: i64 = 24 * 60 * 60 * 1000;

/// Limits `authenticate`: its 401 for an invalid credential counts against the client's address. A repeated credential
/// counts once, because it guesses nothing.
///
/// Beyond the limit, further invalid credentials from the address get 429 until the window ends. Clients with valid
/// tokens that share the address are served. Only a short token without recent use gets 429 although it is valid,
/// because a right guess must not differ from a wrong one. An instance applies the limit from the first invalid
/// credential that it gets. A valid credential costs no access to the store.
fn limit_invalid<T>(
    env: &Env,
    request: &Request,
    accepted: AcceptedTokens,
    authenticate: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let Some(address) = request.client_address() else { return authenticate() };
    if let Some(refusal) = rate_limit::known_refusal(env, &INVALID_TOKEN_LIMIT, address)
        && let Ok(Some(credential)) = first(request, accepted)
        && is_guess(env, &credential)?
    {
        return Err(refusal);
    }
    let outcome = authenticate();
    if let Err(error) = &outcome
        && error.status == StatusCode::UNAUTHORIZED
        && let Some(item) = item(request, accepted)
    {
        rate_limit::check_distinct(env, &INVALID_TOKEN_LIMIT, DEFAULT_INVALID_TOKENS, address, item)?;
    }
    outcome
}

/// Whether the credential can be a guess. 1 read for a short one.
fn is_guess(env: &Env, credential: &Credential) -> Result<bool, StoreError> {
    if credential.token.len() >= UNGUESSABLE {
        return Ok(false);
    }
    let used = token::last_use(env, &Fingerprint::of(&credential.token))?;
    Ok(used.is_none_or(|used| env.now.millis() - used.millis() > RECENT_USE))
}

/// Four bytes of the credential's fingerprint, which do not reveal it; `None` without a credential. An unreadable
/// header counts as a credential. Reads nothing.
fn item(request: &Request, accepted: AcceptedTokens) -> Option<u32> {
    let fingerprint = match first(request, accepted) {
        Ok(credential) => Fingerprint::of(&credential?.token),
        Err(_) => Fingerprint::of(request.headers.get(AUTHORIZATION)?.as_bytes()),
    };
    fingerprint.bytes().first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

static PRIVATE_TOKEN: HeaderName = HeaderName::from_static("private-token");
static JOB_TOKEN: HeaderName = HeaderName::from_static("job-token");
static DEPLOY_TOKEN: HeaderName = HeaderName::from_static("deploy-token");
static SUDO: HeaderName = HeaderName::from_static("sudo");

/// The credentials that an area accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedTokens {
    /// Personal tokens. Other forms are ignored.
    Api,
    /// Also job tokens and deploy tokens, and personal and deploy tokens as the password of HTTP Basic.
    Registry,
    /// The forms that git can present: also personal, deploy and job tokens as the password of HTTP Basic.
    Repository,
}

/// A presented token. It has no text form, so it is never logged.
pub(crate) struct Credential {
    pub kind: CredentialKind,
    pub token: Vec<u8>,
}

/// The place of the token in the request, which limits the accepted tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// `PRIVATE-TOKEN`, `private_token`, `access_token`.
    Personal,
    Bearer,
    /// `JOB-TOKEN`, `job_token`.
    Job,
    /// `Deploy-Token`.
    Deployment,
    /// The password of HTTP Basic.
    Password,
}

impl CredentialKind {
    pub fn allows_personal(self) -> bool {
        matches!(self, CredentialKind::Personal | CredentialKind::Bearer | CredentialKind::Password)
    }

    pub fn allows_job(self, accepted: AcceptedTokens) -> bool {
        match accepted {
            AcceptedTokens::Api => false,
            AcceptedTokens::Registry => matches!(self, CredentialKind::Job | CredentialKind::Bearer),
            AcceptedTokens::Repository => matches!(self, CredentialKind::Password | CredentialKind::Bearer),
        }
    }

    pub fn allows_deployment(self) -> bool {
        matches!(self, CredentialKind::Deployment | CredentialKind::Bearer | CredentialKind::Password)
    }
}

/// The credential that decides, if any. An empty one counts as absent.
pub(crate) fn first(request: &Request, accepted: AcceptedTokens) -> Result<Option<Credential>, Error> {
    let params = request.params();
    let header = |name: &HeaderName| request.headers.get(name).map(|value| value.as_bytes().to_vec());
    let param = |name: &str| params.last(name).map(|value| value.as_bytes().to_vec());
    let present =
        |kind, token: Option<Vec<u8>>| token.filter(|token| !token.is_empty()).map(|token| Credential { kind, token });

    let personal = present(CredentialKind::Personal, header(&PRIVATE_TOKEN))
        .or_else(|| present(CredentialKind::Personal, param("private_token")))
        .or_else(|| present(CredentialKind::Bearer, authorization(request, "bearer").map(<[u8]>::to_vec)))
        .or_else(|| present(CredentialKind::Personal, param("access_token")));
    if personal.is_some() || accepted == AcceptedTokens::Api {
        return Ok(personal);
    }
    if accepted == AcceptedTokens::Repository {
        return basic(request, CredentialKind::Password);
    }
    let machine = present(CredentialKind::Job, header(&JOB_TOKEN))
        .or_else(|| present(CredentialKind::Job, param("job_token")))
        .or_else(|| present(CredentialKind::Deployment, header(&DEPLOY_TOKEN)));
    if machine.is_some() {
        return Ok(machine);
    }
    basic(request, CredentialKind::Password)
}

/// A request with the headers of `request` except credentials. A credential from the body can be added to it.
pub fn without_credentials(request: &Request, method: Method) -> Request {
    let mut other = Request::new(method, "/");
    other.headers = request.headers.clone();
    for name in [&AUTHORIZATION, &PRIVATE_TOKEN, &JOB_TOKEN, &DEPLOY_TOKEN, &SUDO] {
        other.headers.remove(name);
    }
    other
}

/// The password of HTTP Basic; 401 if the header cannot be read.
fn basic(request: &Request, kind: CredentialKind) -> Result<Option<Credential>, Error> {
    let Some(basic) = authorization(request, "basic") else { return Ok(None) };
    let token = password(basic).ok_or_else(Error::unauthorized)?;
    Ok((!token.is_empty()).then_some(Credential { kind, token }))
}

/// 400 if a parameter that identifies the caller has another form than one value, such as `sudo[]=`. Otherwise the
/// request would be handled as another caller's, or as an anonymous one.
pub(crate) fn check_forms(request: &Request, accepted: AcceptedTokens) -> Result<(), Error> {
    let params = request.params();
    let checks = Validation::new(&params);
    let job_token = (accepted == AcceptedTokens::Registry).then_some("job_token");
    for name in ["private_token", "access_token", "sudo"].into_iter().chain(job_token) {
        let _ = checks.last(name);
    }
    checks.finish()
}

/// The user as whom an administrator sends the request: an id or a username.
pub(crate) fn sudo(request: &Request) -> Option<String> {
    let header = request.headers.get(&SUDO).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    header.or_else(|| request.params().last("sudo").map(str::to_owned)).filter(|target| !target.is_empty())
}

/// The credentials after the scheme in an `Authorization` header of this scheme.
fn authorization<'a>(request: &'a Request, scheme: &str) -> Option<&'a [u8]> {
    let value = request.headers.get(AUTHORIZATION)?.as_bytes();
    let (given, rest) = value.split_at_checked(scheme.len())?;
    let rest = rest.strip_prefix(b" ")?;
    given.eq_ignore_ascii_case(scheme.as_bytes()).then(|| rest.trim_ascii())
}

/// The password of `base64(user:password)`.
fn password(basic: &[u8]) -> Option<Vec<u8>> {
    let decoded = STANDARD.decode(basic).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    decoded.get(colon + 1..).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests;

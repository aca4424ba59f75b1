//! The forms in which a request can carry a token.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, Method};
use kit::params::Validation;
use kit::{Error, Request};

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

use super::*;
use crate::testing::{fill, forge, issue, issue_to, new_token, new_user};
use crate::user::NewUser;
use kit::testing::{FailingStore, MemoryStore, NOW};

fn request(headers: &[(&str, &str)], query: &str) -> Request {
    let mut request = Request::new(Method::GET, &format!("/?{query}"));
    for (name, value) in headers {
        request.headers.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    request
}

/// A description of the caller, or the error.
fn describe(env: &Env, accepted: AcceptedTokens, headers: &[(&str, &str)], query: &str) -> String {
    match authenticate(env, &request(headers, query), accepted) {
        Ok(Caller::Anonymous) => "anonymous".into(),
        Ok(Caller::User(session)) => session.user.username.clone(),
        Ok(Caller::DeployToken(token)) => format!("deploy {:?}", token.source),
        Ok(Caller::Job(job)) => format!("job of {} in {}", job.session.user.username, job.project.id),
        Err(error) => format!("{} {}", error.status.as_u16(), error.to_json()),
    }
}

const UNAUTHORIZED: &str = r#"401 {"message":"401 Unauthorized"}"#;

fn forge_with_tokens() -> Env {
    let env = forge();
    issue_to(&env, "pat", 2, &["api"]);
    issue_to(&env, "bob", 3, &["read_api"]);
    issue_to(&env, "adm", 1, &["api", "sudo"]);
    issue_to(&env, "weak", 1, &["api"]);
    issue(&env, "dep", new_token(Subject::Deployment(Source::Group(10)), &["read_package_registry"]));
    issue(&env, "run", new_token(Subject::Job { user_id: 2, project_id: 100, running: true }, &[]));
    issue(&env, "fin", new_token(Subject::Job { user_id: 2, project_id: 100, running: false }, &[]));
    env
}

#[test]
fn a_credential_in_another_form_than_one_value_is_refused() {
    let env = forge_with_tokens();
    let refused = |name: &str| format!(r#"400 {{"error":"{name} is invalid"}}"#);
    let adm = [("private-token", "adm")];
    for form in ["[]=pat", "[x]=pat", "%5B%5D=pat", "[]=", "=pat&NAME[]=x"] {
        for (name, headers) in [("private_token", &[][..]), ("access_token", &[]), ("sudo", &adm)] {
            let query = format!("{name}{}", form.replace("NAME", name));
            for accepted in [AcceptedTokens::Api, AcceptedTokens::Registry, AcceptedTokens::Repository] {
                assert_eq!(describe(&env, accepted, headers, &query), refused(name), "{query}");
            }
        }
        let query = format!("job_token{}", form.replace("NAME", "job_token"));
        assert_eq!(describe(&env, AcceptedTokens::Registry, &[], &query), refused("job_token"));
        assert_eq!(describe(&env, AcceptedTokens::Api, &[], &query), "anonymous", "not a credential there");
    }
}

#[test]
fn git_presents_a_token_as_a_password() {
    let env = forge_with_tokens();
    for (headers, expected) in [
        (vec![], "anonymous"),
        (vec![("private-token", "pat")], "Alice"),
        (vec![("authorization", "Bearer pat")], "Alice"),
        // base64 of `any:pat`, `any:dep`, `any:run`, `any:` and `dep`.
        (vec![("authorization", "Basic YW55OnBhdA==")], "Alice"),
        (vec![("authorization", "Basic YW55OmRlcA==")], "deploy Group(10)"),
        (vec![("authorization", "Basic YW55OnJ1bg==")], "job of Alice in 100"),
        (vec![("authorization", "Basic YW55Og==")], "anonymous"),
        (vec![("authorization", "Basic ZGVw")], UNAUTHORIZED),
        (vec![("job-token", "run")], "anonymous"),
    ] {
        assert_eq!(describe(&env, AcceptedTokens::Repository, &headers, ""), expected, "{headers:?}");
    }
}

#[test]
fn each_kind_of_credential_counts_where_it_is_accepted() {
    let env = forge_with_tokens();
    let deploy = "deploy Group(10)";
    let job = "job of Alice in 100";
    // base64 of `any:dep`, `any:pat`, `any:` and `dep`.
    for (headers, query, api, registry) in [
        (vec![], "", "anonymous", "anonymous"),
        (vec![("private-token", "pat")], "", "Alice", "Alice"),
        (vec![], "private_token=pat", "Alice", "Alice"),
        (vec![("authorization", "Bearer pat")], "", "Alice", "Alice"),
        (vec![("authorization", "bearer  pat ")], "", "Alice", "Alice"),
        (vec![], "access_token=pat", "Alice", "Alice"),
        (vec![("authorization", "Bearer run")], "", UNAUTHORIZED, job),
        (vec![("job-token", "run")], "", "anonymous", job),
        (vec![], "job_token=run", "anonymous", job),
        (vec![("authorization", "Bearer dep")], "", UNAUTHORIZED, deploy),
        (vec![("deploy-token", "dep")], "", "anonymous", deploy),
        (vec![("authorization", "Basic YW55OmRlcA==")], "", "anonymous", deploy),
        (vec![("authorization", "Basic YW55OnBhdA==")], "", "anonymous", "Alice"),
        (vec![("authorization", "Basic ZGVw")], "", "anonymous", UNAUTHORIZED),
        (vec![("authorization", "Basic !")], "", "anonymous", UNAUTHORIZED),
        (vec![("private-token", "dep")], "", UNAUTHORIZED, UNAUTHORIZED),
        (vec![("private-token", "run")], "", UNAUTHORIZED, UNAUTHORIZED),
        (vec![("job-token", "pat")], "", "anonymous", UNAUTHORIZED),
        (vec![("deploy-token", "pat")], "", "anonymous", UNAUTHORIZED),
        (vec![("job-token", "fin")], "", "anonymous", UNAUTHORIZED),
    ] {
        assert_eq!(describe(&env, AcceptedTokens::Api, &headers, query), api, "{headers:?} {query}");
        assert_eq!(describe(&env, AcceptedTokens::Registry, &headers, query), registry, "{headers:?} {query}");
    }
}

#[test]
fn the_first_credential_decides_even_if_it_is_invalid() {
    let env = forge_with_tokens();
    let both = [("private-token", "pat"), ("authorization", "Bearer bob")];
    assert_eq!(describe(&env, AcceptedTokens::Api, &both, ""), "Alice");
    assert_eq!(describe(&env, AcceptedTokens::Api, &both[1..], "private_token=pat"), "Alice");
    assert_eq!(describe(&env, AcceptedTokens::Api, &both[1..], "access_token=pat"), "bob");
    let bad_first = [("private-token", "nonsense"), ("authorization", "Bearer bob")];
    assert_eq!(describe(&env, AcceptedTokens::Api, &bad_first, ""), UNAUTHORIZED);
    let found = describe(&env, AcceptedTokens::Api, &[("private-token", "")], "access_token=pat");
    assert_eq!(found, "Alice", "empty is absent");
    let found = describe(&env, AcceptedTokens::Registry, &[("job-token", "run"), ("deploy-token", "dep")], "");
    assert_eq!(found, "job of Alice in 100");
}

#[test]
fn bytes_that_are_not_text_are_an_invalid_token() {
    let env = forge_with_tokens();
    let mut request = Request::new(Method::GET, "/");
    request.headers.insert("private-token", http::HeaderValue::from_bytes(b"\xff").unwrap());
    assert!(authenticate(&env, &request, AcceptedTokens::Api).is_err());
    assert_eq!(describe(&env, AcceptedTokens::Api, &[], "private_token=%ff"), UNAUTHORIZED);
}

#[test]
fn expired_and_revoked_tokens_say_so() {
    let env = forge_with_tokens();
    issue(&env, "t", Token { expires_at: Some(NOW), ..new_token(Subject::User(2), &["api"]) });
    let expected = r#"401 {"error":"invalid_token","error_description":"Token is expired. You can either do re-authorization or token refresh."}"#;
    assert_eq!(describe(&env, AcceptedTokens::Api, &[("private-token", "t")], ""), expected);
    issue(&env, "t", Token { revoked: true, ..new_token(Subject::User(2), &["api"]) });
    let expected = r#"401 {"error":"invalid_token","error_description":"Token was revoked. You have to re-authorize from the user."}"#;
    assert_eq!(describe(&env, AcceptedTokens::Api, &[("private-token", "t")], ""), expected);
    token::save(&env, &Fingerprint::of(b"t"), None).unwrap();
    assert_eq!(describe(&env, AcceptedTokens::Api, &[("private-token", "t")], ""), UNAUTHORIZED);
}

#[test]
fn a_user_who_is_not_active_is_told_why() {
    let env = forge_with_tokens();
    for (state, answer) in [
        (UserState::Blocked, "403 Forbidden - Your account has been blocked."),
        (UserState::Banned, "403 Forbidden - Your account has been blocked."),
        (UserState::Deactivated, "403 Forbidden - Your account has been deactivated by your administrator."),
    ] {
        user::save(&env, NewUser { state, ..new_user(2, "alice") }).unwrap();
        let expected = format!("403 {{\"message\":\"{answer}\"}}");
        assert_eq!(describe(&env, AcceptedTokens::Api, &[("private-token", "pat")], ""), expected);
        assert_eq!(describe(&env, AcceptedTokens::Registry, &[("job-token", "run")], ""), expected);
        assert_eq!(describe(&env, AcceptedTokens::Api, &[("private-token", "adm"), ("sudo", "alice")], ""), expected);
    }
    user::delete(&env, 2).unwrap();
    assert_eq!(describe(&env, AcceptedTokens::Api, &[("private-token", "pat")], ""), UNAUTHORIZED);
}

#[test]
fn an_administrator_sends_requests_as_another_user() {
    let env = forge_with_tokens();
    let sudo = |token: &str, target: &str| {
        describe(&env, AcceptedTokens::Api, &[("private-token", token), ("sudo", target)], "")
    };
    assert_eq!(sudo("adm", "ALICE"), "Alice");
    assert_eq!(sudo("adm", "3"), "bob");
    assert_eq!(describe(&env, AcceptedTokens::Api, &[("private-token", "adm")], "sudo=bob"), "bob");
    assert_eq!(sudo("pat", "bob"), r#"403 {"message":"403 Forbidden - Must be admin to use sudo"}"#);
    let expected = r#"403 {"error":"insufficient_scope","error_description":"The request requires higher privileges than provided by the access token.","scope":"sudo"}"#;
    assert_eq!(sudo("weak", "bob"), expected);
    assert_eq!(sudo("adm", "123"), r#"404 {"message":"404 User with ID or username '123' Not Found"}"#);
    assert_eq!(sudo("adm", ""), "root", "an empty target is none");
    assert_eq!(describe(&env, AcceptedTokens::Api, &[("sudo", "bob")], ""), UNAUTHORIZED);
    assert_eq!(describe(&env, AcceptedTokens::Registry, &[("deploy-token", "dep"), ("sudo", "bob")], ""), UNAUTHORIZED);
}

#[test]
fn sudo_as_a_user_gives_no_administrator_rights() {
    let env = forge_with_tokens();
    for token in ["adm", "bootstrap-secret"] {
        let caller =
            authenticate(&env, &request(&[("private-token", token), ("sudo", "bob")], ""), AcceptedTokens::Api);
        let caller = caller.unwrap_or_else(|error| panic!("{token}: {}", error.to_json()));
        assert!(!caller.is_admin() && caller.has_scope(&["api"]), "{token}");
    }
}

#[test]
fn the_built_in_administrator_needs_no_record() {
    let env = kit::testing::env(FailingStore::after(0, MemoryStore::default()), &[(BOOTSTRAP_ADMIN_TOKEN, "boot")]);
    for headers in [("private-token", "boot"), ("authorization", "Bearer boot")] {
        let Ok(caller) = authenticate(&env, &request(&[headers], ""), AcceptedTokens::Api) else { panic!("let in") };
        assert!(caller.is_admin() && caller.has_scope(&["anything"]));
    }
    assert!(authenticate(&env, &request(&[("private-token", "boo")], ""), AcceptedTokens::Api).is_err());
}

#[test]
fn without_a_bootstrap_token_there_is_no_built_in_administrator() {
    for variables in [&[][..], &[(BOOTSTRAP_ADMIN_TOKEN, "")][..]] {
        let env = kit::testing::env(MemoryStore::default(), variables);
        fill(&env);
        assert_eq!(describe(&env, AcceptedTokens::Api, &[("private-token", "x")], ""), UNAUTHORIZED);
        assert_eq!(describe(&env, AcceptedTokens::Api, &[("private-token", "")], ""), "anonymous");
    }
}

#[test]
fn scopes() {
    let env = forge_with_tokens();
    let caller =
        |token| authenticate(&env, &request(&[("private-token", token)], ""), AcceptedTokens::Api).ok().unwrap();
    assert!(caller("bob").require_scope(api_scopes(&Method::GET)).is_ok());
    let refused = caller("bob").require_scope(api_scopes(&Method::PUT)).unwrap_err();
    assert_eq!((refused.status.as_u16(), refused.to_json()["scope"].as_str()), (403, Some("api")));
    let wide = caller("bob").require_scope(&["api", "sudo"]).unwrap_err();
    assert_eq!(wide.to_json()["scope"], "api sudo");
    assert!(Caller::Anonymous.require_scope(&["api"]).is_ok());
}

#[test]
fn failing_storage_is_an_error_and_never_anonymous() {
    for operations in 0..2 {
        let store = MemoryStore::default();
        let env = kit::testing::env(store.clone(), &[]);
        fill(&env);
        issue_to(&env, "pat", 2, &["api"]);
        let failing = FailingStore::after(operations, store);
        let outcome = authenticate(
            &kit::testing::env(failing.clone(), &[]),
            &request(&[("private-token", "pat")], ""),
            AcceptedTokens::Api,
        );
        assert_eq!((outcome.err().map(|error| error.status.as_u16()), failing.failed()), (Some(500), true));
    }
}

#[test]
fn an_error_contains_neither_a_token_nor_its_fingerprint() {
    let store = MemoryStore::default();
    let env = kit::testing::env(store.clone(), &[]);
    issue_to(&env, "1", 2, &["api"]);
    let key = store.keys().into_iter().find(|key| key.contains("/token/") && !key.ends_with("/init")).unwrap();
    kit::store::Store::set(&store, &key, b"{").unwrap();
    let error = authenticate(&env, &request(&[("private-token", "1")], ""), AcceptedTokens::Api).err().unwrap();
    let cause = error.cause.clone().unwrap();
    assert!(cause.starts_with("`directory/v1/token/(hidden)` cannot be read"), "{cause}");
    assert_eq!(error.to_json(), serde_json::json!({"message": "500 Internal Server Error"}));
}

/// The status of a response to a client at this address.
fn status(env: &Env, accepted: AcceptedTokens, address: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = request(headers, "");
    request.headers.insert("spin-client-addr", address.parse().unwrap());
    authenticate(env, &request, accepted).map_or_else(|error| error.status.as_u16(), |_| 200)
}

#[test]
fn invalid_credentials_count_against_the_address_whatever_their_form() {
    let basic = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    type Guess<'a> = &'a dyn Fn(u32) -> (&'static str, String);
    let guesses: [(_, Guess<'_>); 6] = [
        (AcceptedTokens::Api, &|n| ("private-token", format!("no{n}"))),
        (AcceptedTokens::Api, &|n| ("authorization", format!("Bearer a-long-guess-of-a-token-{n}"))),
        (AcceptedTokens::Registry, &|n| ("job-token", format!("no{n}"))),
        (AcceptedTokens::Registry, &|n| ("authorization", format!("Basic {}", basic(&format!("any:no{n}"))))),
        (AcceptedTokens::Repository, &|n| ("authorization", format!("Basic {}", basic(&format!("any:no{n}"))))),
        (AcceptedTokens::Repository, &|n| ("authorization", format!("Basic !{n}"))),
    ];
    for (accepted, guess) in guesses {
        let env = forge_with_tokens();
        issue_to(&env, "a-token-that-cannot-be-guessed", 2, &["api"]);
        let ask = |env: &Env, address: &str, headers: &[(&str, &str)]| status(env, accepted, address, headers);
        let guess = |env: &Env, address: &str, n: u32| {
            let (name, value) = guess(n);
            ask(env, address, &[(name, value.as_str())])
        };
        for n in 0..100 {
            assert_eq!(guess(&env, "192.0.2.1:1", n), 401, "{n}");
            assert_eq!(ask(&env, "192.0.2.1:1", &[]), 200, "a request without a credential");
        }
        assert_eq!(guess(&env, "192.0.2.1:2", 100), 429);
        assert_eq!(ask(&env, "192.0.2.1:1", &[("private-token", "pat")]), 429, "a right guess looks like a wrong one");
        let long = [("private-token", "a-token-that-cannot-be-guessed")];
        assert_eq!(ask(&env, "192.0.2.1:1", &long), 200, "no guess");
        assert_eq!(ask(&env, "192.0.2.1:1", &[]), 200);
        assert_eq!(ask(&env, "192.0.2.2:1", &[("private-token", "pat")]), 200, "another address");
        let other = Env { instance_cache: Rc::default(), ..env.clone() };
        assert_eq!(guess(&other, "192.0.2.1:1", 100), 429, "another instance");
        let later = Env { now: kit::Timestamp::from_millis(env.now.millis() + 60_000), ..env };
        assert_eq!(ask(&later, "192.0.2.1:1", &[("private-token", "pat")]), 200);
    }
}

#[test]
fn a_refused_token_that_is_repeated_locks_nobody_out() {
    let env = forge_with_tokens();
    for token in ["no", "fin", "dep"] {
        for _ in 0..300 {
            assert_eq!(status(&env, AcceptedTokens::Api, "192.0.2.1:1", &[("private-token", token)]), 401);
        }
    }
    assert_eq!(status(&env, AcceptedTokens::Api, "192.0.2.1:1", &[("private-token", "pat")]), 200);
}

/// All callers share an address. Each request has its own instance, or all share one.
#[test]
fn who_shares_an_address_with_guesses_goes_on() {
    for is_shared in [true, false] {
        let env = kit::testing::env(MemoryStore::default(), &[(token::LAST_USE_MINUTES, "10")]);
        fill(&env);
        let long = "a-token-that-cannot-be-guessed";
        for text in ["pat", "new", long] {
            issue_to(&env, text, 2, &["api"]);
        }
        let ask = |token: &str| {
            let instance_cache = if is_shared { env.instance_cache.clone() } else { Rc::default() };
            let env = Env { instance_cache, ..env.clone() };
            status(&env, AcceptedTokens::Api, "127.0.0.1:1", &[("private-token", token)])
        };
        assert_eq!(ask("pat"), 200);
        let refused: Vec<u16> = (0..160).map(|n| ask(&format!("wrong-{n}"))).collect();
        assert_eq!(refused, [[401; 100].as_slice(), &[429; 60]].concat());
        assert_eq!([ask("pat"), ask(long)], [200, 200], "used before, and no guess");
        assert_eq!(ask("new"), if is_shared { 429 } else { 200 });
    }
}

#[test]
fn without_a_credential_nothing_counts() {
    let env = forge_with_tokens();
    for _ in 0..200 {
        assert_eq!(status(&env, AcceptedTokens::Api, "192.0.2.1:1", &[("sudo", "alice")]), 401);
        assert_eq!(status(&env, AcceptedTokens::Api, "192.0.2.1:1", &[("private-token", "")]), 200);
    }
    let unlimited = kit::testing::env(MemoryStore::default(), &[(INVALID_TOKENS, "0")]);
    for _ in 0..200 {
        assert_eq!(status(&unlimited, AcceptedTokens::Api, "192.0.2.1:1", &[("private-token", "no")]), 401);
    }
}

#[test]
fn a_valid_token_costs_two_operations_after_an_invalid_one() {
    let store = MemoryStore::default();
    let env = kit::testing::env(store.clone(), &[]);
    fill(&env);
    issue_to(&env, "pat", 2, &["api"]);
    assert_eq!(status(&env, AcceptedTokens::Api, "192.0.2.1:1", &[("private-token", "no")]), 401);
    for (operations, expected) in [(1, 500), (2, 200)] {
        let failing = Env { store: Rc::new(FailingStore::after(operations, store.clone())), ..env.clone() };
        assert_eq!(status(&failing, AcceptedTokens::Api, "192.0.2.1:1", &[("private-token", "pat")]), expected);
    }
}

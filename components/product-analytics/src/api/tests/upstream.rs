//! The requests to the engine, and the handling of its answers.

use super::*;

const MIB: usize = 1 << 20;

/// `text` in parts, as a server sends it.
fn cut(text: &str) -> Vec<Chunk> {
    text.as_bytes().chunks(64 << 10).map(|part| Ok(Bytes::copy_from_slice(part))).collect()
}

/// A long answer, with more members after the rows.
fn long(more: &str) -> String {
    let row = r#"{"TrackedEvents.count":"335","x":1.50e2}"#;
    let rows = vec![row; MIB / row.len()].join(",");
    format!(r#"{{"queryType":"regularQuery","results":[{{"data":[{rows}]}}]{more}}}"#)
}

fn forge_with(chunks: impl Fn() -> Vec<Chunk> + 'static) -> Forge {
    Forge::with(move |_| Ok(reply(parts(chunks()))))
}

#[test]
fn the_engine_is_asked_for_this_and_nothing_else() {
    let forge = Forge::answering(r#"{"results":[]}"#);
    let path = "7/product_analytics/request/dry-run?queryType=single&include_token=1&other=1";
    let body = r#"{"query": {"limit": 1.50}, "other": 5}"#;
    assert_eq!(forge.ask("dev", Method::POST, path, body).status, 200);
    assert_eq!(forge.ask("dev", Method::POST, "9/product_analytics/request/meta", "{").status, 200);
    let calls = forge.engine.take_calls();
    let [dry_run, meta] = calls.as_slice() else { panic!("two calls: {calls:?}") };
    let asked =
        |call: &OutboundRequest| format!("{} {} {}", call.method, call.url, String::from_utf8_lossy(&call.body));
    let expected = r#"POST http://engine.test/x/cubejs-api/v1/dry-run {"query":{"limit": 1.50},"queryType":"single"}"#;
    assert_eq!(asked(dry_run), expected);
    assert_eq!(asked(meta), "GET http://engine.test/x/cubejs-api/v1/meta ");
    for (call, project) in [(dry_run, "gitlab_project_7"), (meta, "gitlab_project_9")] {
        let mut names: Vec<&str> = call.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "content-type"]);
        assert_eq!(call.headers["content-type"], "application/json");
        let expected = json!({"iat": 1_790_000_000, "exp": 1_790_000_180, "appId": project, "gitlabToken": null, "iss": "forge.test"});
        assert_eq!(claims(call), expected);
        let timeouts = [call.timeouts.connect, call.timeouts.idle, call.timeouts.total];
        assert_eq!(timeouts.map(|time| time.as_secs()), [10, 20, 30]);
    }
}

/// The engine's client sends a short query in the query string.
#[test]
fn a_query_by_get_is_the_same_query() {
    let forge = Forge::answering(r#"{"results":[]}"#);
    for endpoint in ["load", "dry-run"] {
        let path = format!("7/product_analytics/request/{endpoint}?query=%7B%22limit%22%3A1%7D&queryType=multi");
        assert_eq!(forge.ask("reader", Method::GET, &path, "").status, 200, "{endpoint}");
    }
    let calls = forge.engine.take_calls();
    assert!(calls.iter().all(|call| call.method == Method::POST));
    assert!(calls.iter().all(|call| *call.body == *br#"{"query":{"limit":1},"queryType":"multi"}"#));
    assert_eq!(calls.len(), 2);
}

#[test]
fn the_issuer_is_the_public_host_and_times_are_variables() {
    let mut forge = Forge::answering("{}");
    forge.variables = vec![("external_url", "https://code.example/forge/"), ("analytics_read_seconds", "7")];
    forge.load(QUERY);
    let calls = forge.engine.take_calls();
    assert_eq!((claims(&calls[0])["iss"].as_str(), calls[0].timeouts.idle.as_secs()), (Some("code.example"), 7));
}

#[test]
fn keys_are_sealed_where_they_are_stored_and_sign_the_same_tokens() {
    let mut forge = Forge::answering("{}");
    let own =
        Analytics { base_url: Some("http://own.test/".into()), key: Some("own secret".into()), ..Analytics::default() };
    let mut asked = Vec::new();
    for variables in [vec![], vec![(directory::seal::KEY, "k")]] {
        forge.variables = variables;
        forge.set(json!({"analytics_api_key": "very secret"}));
        forge.project(PRIVATE, "secret", 11, Visibility::Private, own.clone());
        forge.load(QUERY);
        forge.ask("dev", Method::GET, "9/product_analytics/request/meta", "");
        asked.push(forge.engine.take_calls());
    }
    assert_eq!((asked[0].len(), &asked[0]), (2, &asked[1]));
    for key in ["directory/v1/settings", "directory/v1/project/9"] {
        let stored = Store::get(&forge.store, key).unwrap().unwrap();
        assert!(!String::from_utf8_lossy(&stored).contains(" secret"), "{key}");
    }
    // Without the key, the error names no secret and no address.
    forge.variables = vec![];
    let refused = forge.load(QUERY);
    assert_eq!((refused.status, refused.text().contains("sealed:")), (500, false), "{}", refused.text());
}

#[test]
fn the_engines_body_decides_and_not_its_status() {
    let refusal = |text: &str| format!(r#"{{"error":"{text}","message":"{text}"}}"#);
    let unusable = |why: &str| refusal(&format!("the analytics engine's answer cannot be used: {why}"));
    let database = r#"{"error":"Error: Code: 81. DB::Exception: gone (UNKNOWN_DATABASE)"}"#;
    for (status, body, expected, answer) in [
        (200, r#"{"results": [1.50]}"#, 200, r#"{"results": [1.50]}"#.to_owned()),
        (500, r#"{"results":null}"#, 200, r#"{"results":null}"#.into()),
        (200, r#"{"error":"Continue wait"}"#, 200, r#"{"error":"Continue wait"}"#.into()),
        (200, r#"{"error":"no","stack":"at /srv"}"#, 400, refusal("no")),
        (403, r#"{"error":"Invalid token"}"#, 400, refusal("Invalid token")),
        (400, database, 404, refusal("404 Clickhouse Database Not Found")),
        (404, "<html>", 502, unusable("it is not a JSON object")),
        (200, "[]", 502, unusable("it is not a JSON object")),
        (200, "null", 502, unusable("it is not a JSON object")),
        (302, "", 502, unusable("it is not JSON: EOF while parsing a value at line 1 column 0")),
    ] {
        let forge =
            Forge::with(move |_| Ok(OutboundResponse { status: StatusCode::from_u16(status).unwrap(), ..reply(body) }));
        let given = forge.load(QUERY);
        assert_eq!((given.status, given.text()), (expected, answer), "{status} {body}");
        assert_eq!(given.headers["content-type"], "application/json");
        assert_eq!(given.headers["cache-control"], "no-store");
    }
}

#[test]
fn results_are_null_where_there_are_none() {
    for (body, expected) in [
        ("{}", r#"{"results":null}"#),
        (r#"{ "data" : [1.0] } "#, r#"{ "data" : [1.0] ,"results":null} "#),
        (r#"{"results":[]}"#, r#"{"results":[]}"#),
    ] {
        assert_eq!(Forge::answering(body).load(QUERY).text(), expected);
    }
    let forge = Forge::answering(r#"{"cubes":[]}"#);
    assert_eq!(forge.ask("dev", Method::GET, "7/product_analytics/request/meta", "").text(), r#"{"cubes":[]}"#);
}

#[test]
fn the_token_is_in_the_answer_if_it_is_asked_for() {
    let query = QUERY.replacen('{', r#"{"include_token":true,"#, 1);
    let forge = Forge::answering(r#"{"results":[]}"#);
    let answer = forge.load(query.clone()).json();
    let calls = forge.engine.take_calls();
    assert_eq!(answer["token"], calls[0].headers["authorization"].to_str().unwrap());
    assert_eq!(forge.load(QUERY).json().get("token"), None);
    assert_eq!(forge_with(|| cut(&long(""))).load(query.clone()).json()["token"], answer["token"]);
    let waiting = r#"{"error":"Continue wait"}"#;
    assert_eq!(Forge::answering(waiting).load(query).text(), waiting);
}

#[test]
fn gaps_are_filled_where_a_query_asks_for_it() {
    let forge = Forge::answering(r#"{"results":[{"data":[{"S.at.day":"2024-05-01T00:00:00.000","S.n":1}]}]}"#);
    let query = r#"{"query":{"measures":["S.n"],"filters":[{"member":"S.at","operator":"inDateRange","values":["2024-05-01","2024-05-02"]}]}}"#;
    let days = &forge.load(query).json()["results"][0]["data"];
    let expected = json!([
        {"S.at.day": "2024-05-01T00:00:00.000", "S.n": 1},
        {"S.at.day": "2024-05-02T00:00:00.000", "S.at": "2024-05-02T00:00:00.000", "S.n": "0"}
    ]);
    assert_eq!(*days, expected);
}

#[test]
fn long_answers_pass_byte_for_byte() {
    let answer = forge_with(|| cut(&long(""))).load(QUERY);
    assert!(answer.status == 200 && answer.broken.is_none() && answer.text() == long(""));

    let answer = forge_with(|| cut(&long("").replacen("results", "rows", 1))).load(QUERY);
    let expected = long(r#","results":null"#).replacen("results", "rows", 1);
    assert!(answer.status == 200 && answer.broken.is_none() && answer.text() == expected);
}

/// Errors that would be refused at the beginning pass here: of the rest, only the end and the length are checked.
#[test]
fn the_rest_of_a_long_answer_passes_unread() {
    let deep = format!(r#","x":{}{},"error":"late""#, "[".repeat(40), "]".repeat(40));
    let sent = deep.clone();
    let answer = forge_with(move || cut(&long(&sent))).load(QUERY);
    assert!(answer.status == 200 && answer.broken.is_none() && answer.text() == long(&deep));
}

#[test]
fn an_answer_that_passes_unchanged_has_its_length() {
    let forge = Forge::with(|_| {
        let mut reply = reply(parts(cut(&long(""))));
        reply.headers.insert("content-length", long("").len().into());
        Ok(reply)
    });
    let length = |body: &str| {
        let answer = forge.load(body.to_owned());
        assert_eq!((answer.status, answer.broken.clone()), (200, None));
        answer.headers.get("content-length").map(|length| length.to_str().unwrap().to_owned())
    };
    assert_eq!(length(QUERY), Some(long("").len().to_string()));
    assert_eq!(length(&QUERY.replacen('{', r#"{"include_token":true,"#, 1)), None);
}

#[test]
fn a_long_error_is_an_error() {
    let long_error = || format!(r#"{{"error":"no {}","stack":"at /srv"}}"#, "x".repeat(MIB));
    let answer = forge_with(move || cut(&long_error())).load(QUERY);
    assert!(answer.status == 400 && answer.text().len() > MIB && !answer.text().contains("/srv"));
}

#[test]
fn errors_in_the_middle_of_a_response_break_it_off() {
    fn broken(chunks: impl Fn() -> Vec<Chunk> + 'static) -> String {
        let answer = forge_with(chunks).load(QUERY);
        assert_eq!(answer.status, 200);
        assert!(!answer.text().contains("/srv"), "{:?}", answer.broken);
        match answer.broken {
            Some(BodyError::Upstream(why)) => why,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(broken(|| cut(long("").trim_end_matches('}'))), "it broke off");
    assert_eq!(broken(|| cut(&format!("{}  ", long("").trim_end_matches('}')))), "it broke off");
    // The body is scanned as long as `results` is missing.
    let other = |more: &str| long(more).replacen("results", "rows", 1);
    let late = r#","error":"late","stack":"/srv""#;
    assert_eq!(broken(move || cut(&other(late))), "an error in the middle of a result");
    assert_eq!(broken(move || cut(&(other("") + "<html>/srv"))), "something follows its end");
    let found = broken(|| {
        let mut chunks = cut(&long(""));
        chunks.truncate(5);
        chunks.push(Err(BodyError::Upstream("reset".into())));
        chunks
    });
    assert_eq!(found, "reset");
    let endless = || {
        let part = |n| Ok(Bytes::from(if n == 0 { "{\"x\":\"".to_owned() } else { "y".repeat(64 << 10) }));
        (0..1000).map(part).collect()
    };
    assert_eq!(broken(endless), "it is larger than 20971520 bytes");
}

#[test]
fn errors_at_the_beginning_of_a_response_are_reported() {
    let told = |chunks: fn() -> Vec<Chunk>| {
        let answer = forge_with(chunks).load(QUERY);
        assert_eq!(answer.status, 502);
        answer.json()["message"]
            .as_str()
            .unwrap()
            .strip_prefix("the analytics engine's answer cannot be used: ")
            .unwrap()
            .to_owned()
    };
    assert!(told(Vec::new).starts_with("it is not JSON: EOF"));
    assert_eq!(told(|| vec![Ok("{\"x\":".into()), Err(BodyError::Upstream("reset".into()))]), "it broke off");
    assert_eq!(told(|| vec![Ok("{\"x\":1} {".into())]), "something follows its end");
    assert_eq!(told(|| vec![Ok(format!("{{\"x\":{}", "[".repeat(40)).into())]), "it is nested deeper than 32 levels");
    assert_eq!(told(|| vec![Ok(Bytes::from_static(b"\x1f\x8b\x08"))]), "it is not a JSON object");
    assert_eq!(told(|| vec![Ok(Bytes::from_static(b"{\"x\":\"\xff\"}"))]), "it is not UTF-8");
}

#[test]
fn an_answer_has_a_bound() {
    let body = r#"{"results":[],"x":"yyyy"}"#;
    let message = "the analytics engine's answer cannot be used: it is larger than 24 bytes";
    for declared in [false, true] {
        let mut forge = Forge::with(move |_| {
            let mut reply = reply(body);
            if declared {
                reply.headers.insert("content-length", body.len().into());
            }
            Ok(reply)
        });
        forge.variables = vec![("analytics_max_answer_bytes", "25")];
        assert_eq!(forge.load(QUERY).status, 200);
        forge.variables = vec![("analytics_max_answer_bytes", "24")];
        forge.load(QUERY).is(502, refusal(message));
    }
}

#[test]
fn an_engine_that_cannot_be_asked_is_a_bad_gateway_without_an_address() {
    for (failure, text) in [
        (OutboundError::Refused, "it refused the connection"),
        (OutboundError::Timeout, "it did not answer in time"),
        (OutboundError::Denied, "its address is not allowed"),
        (OutboundError::Name, "its name could not be resolved"),
        (OutboundError::Tls, "no secure connection could be made"),
        (OutboundError::Other("engine.test".into()), "the connection failed"),
    ] {
        let forge = Forge::with(move |_| Err(failure.clone()));
        forge.load(QUERY).is(502, refusal(&format!("the analytics engine cannot be asked: {text}")));
    }
    let busy = Forge::with(|_| Err(OutboundError::Busy)).load(QUERY);
    assert_eq!((busy.status, busy.headers["retry-after"].to_str().unwrap()), (503, "1"));
    let forge = Forge::answering("{}");
    forge.set(json!({"analytics_api_base_url": "http://u:very%20secret@engine.test/"}));
    let refused = forge.load(QUERY);
    assert!(refused.status == 502 && !refused.text().contains("secret"), "{}", refused.text());
}

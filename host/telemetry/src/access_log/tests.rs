use hexad_testing::wait::{SOON, join, wait_for};

use super::*;

fn request(target: &str, agent: &str) -> Request<()> {
    let mut request = Request::get(target).body(()).unwrap();
    request.headers_mut().insert(USER_AGENT, http::HeaderValue::from_bytes(agent.as_bytes()).unwrap());
    request.headers_mut().insert(REFERER, "http://a.test/b?private_token=abc#c".parse().unwrap());
    request
}

/// The lines of requests with these targets.
fn lines(format: AccessLogFormat, targets: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::open(path.clone(), format).unwrap();
    for target in targets {
        let mut access = log.begin(&request(target, "a\"\\b\té"), "192.0.2.7".parse().ok());
        access.record_head(200, &HeaderMap::new());
        access.record_bytes(7);
    }
    drop(log);
    std::fs::read_to_string(&path).unwrap()
}

#[test]
fn secrets_are_not_logged() {
    for (target, logged) in [
        ("/a?private_token=abc&b=c", "/a?private_token=REDACTED&b=c"),
        ("/a?b=c&Job%5FToken=abc", "/a?b=c&Job%5FToken=REDACTED"),
        ("http://user:abc@host/a?x", "/a?x"),
        ("/a?access_token=a=bc", "/a?access_token=REDACTED"),
        ("/a?api_key=abc&key=abc", "/a?api_key=REDACTED&key=REDACTED"),
        ("/-/user/token/abc?b=c", "/-/user/token/REDACTED?b=c"),
    ] {
        let line = lines(AccessLogFormat::Json, &[target]);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["target"], logged);
        assert_eq!(line["referer"], "http://a.test/b");
        assert_eq!((&line["status"], &line["bytes"], &line["client"]), (&200.into(), &7.into(), &"192.0.2.7".into()));
    }
}

#[test]
fn a_client_cannot_forge_a_line() {
    let text = lines(AccessLogFormat::Combined, &["/a", "/b"]);
    for (line, path) in text.lines().zip(["/a", "/b"]) {
        assert!(line.starts_with("192.0.2.7 - - ["), "{line}");
        let rest = format!("\"GET {path} HTTP/1.1\" 200 7 \"http://a.test/b\" \"a\\x22\\x5Cb\\x09\\xC3\\xA9\"");
        assert!(line.ends_with(&rest), "{line}");
    }
}

#[test]
fn bytes_that_are_no_text_are_told_apart_in_the_combined_format() {
    let agents = [&b"a\xe9"[..], b"a\xe8", "a\u{fffd}".as_bytes()];
    let logged = |format| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = AccessLog::open(path.clone(), format).unwrap();
        for agent in agents {
            let mut request = request("/a", "");
            request.headers_mut().insert(USER_AGENT, http::HeaderValue::from_bytes(agent).unwrap());
            let referer = [&b"http://mia:w\xe9rd@a.test/"[..], agent, b"/token/\xe9?b"].concat();
            request.headers_mut().insert(REFERER, http::HeaderValue::from_bytes(&referer).unwrap());
            drop(log.begin(&request, None));
        }
        drop(log);
        std::fs::read_to_string(&path).unwrap()
    };
    let combined = logged(AccessLogFormat::Combined);
    for (line, agent) in combined.lines().zip(["a\\xE9", "a\\xE8", "a\\xEF\\xBF\\xBD"]) {
        let rest = format!("\"http://a.test/{agent}/token/REDACTED\" \"{agent}\"");
        assert!(line.ends_with(&rest), "{line}");
    }
    let json = logged(AccessLogFormat::Json);
    for line in json.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()) {
        assert_eq!(line["user_agent"], "a\u{fffd}");
        assert_eq!(line["referer"], "http://a.test/a\u{fffd}/token/REDACTED");
    }
}

#[test]
fn a_value_is_cut_between_two_characters_if_it_is_text() {
    let text = format!("{}\u{e9}", "a".repeat(MAX_VALUE - 1));
    assert_eq!(cut(text.into_bytes()).len(), MAX_VALUE - 1);
    assert_eq!(cut(vec![0xe9; MAX_VALUE + 1]).len(), MAX_VALUE);
}

#[test]
fn a_line_of_json_has_no_character_that_a_terminal_or_another_reader_takes_for_more() {
    let text = "a\u{9b}31m\u{85}\u{2028}\u{202e}\u{7f}é\u{1f600}";
    let line = json!({ "a": text }).to_string();
    let escaped = escape_controls(&line);
    assert_eq!(escaped, r#"{"a":"a\u009b31m\u0085\u2028\u202e\u007fé😀"}"#);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap()["a"], text);
}

#[test]
fn a_renamed_file_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::open(path.clone(), AccessLogFormat::Json).unwrap();
    std::fs::rename(&path, folder.path().join("access.log.1")).unwrap();
    log.reopen();
    drop(log.begin(&request("/a", "b"), None));
    drop(log);
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"status\":499"));
}

#[test]
fn lines_that_cannot_be_written_are_counted() {
    let log = AccessLog::open("/dev/full".into(), AccessLogFormat::Json).unwrap();
    let dropped = log.dropped.clone();
    for _ in 0..3 {
        drop(log.begin(&request("/a", "b"), None));
    }
    drop(log);
    assert_eq!(dropped.get(), 3);
}

#[test]
fn a_closed_log_has_its_lines_while_a_request_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::open(path.clone(), AccessLogFormat::Json).unwrap();
    let late = log.begin(&request("/late", "b"), None);
    for _ in 0..1000 {
        drop(log.begin(&request("/a", "b"), None));
    }
    log.close();
    let lines = || std::fs::read_to_string(&path).unwrap().lines().count();
    assert_eq!((lines(), log.dropped()), (1000, 0));
    drop(late);
    log.close();
    assert_eq!((lines(), log.dropped()), (1000, 1));
}

#[test]
fn long_values_of_a_client_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::open(path.clone(), AccessLogFormat::Json).unwrap();
    let long = "A".repeat(5000);
    let mut long_request = request(&format!("/{long}"), &long);
    *long_request.method_mut() = long.parse().unwrap();
    long_request.headers_mut().insert(REFERER, format!("http://a.test/{long}").parse().unwrap());
    drop(log.begin(&long_request, None));
    drop(log);
    let line: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for name in ["method", "target", "referer", "user_agent"] {
        assert_eq!(line[name].as_str().unwrap().len(), MAX_VALUE, "{name}");
    }
}

#[test]
fn a_pipe_is_written_if_a_program_reads_it_and_refused_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let refused = AccessLog::open(path.clone(), AccessLogFormat::Json).unwrap_err();
    assert_eq!(refused.to_string(), "it is a pipe that no program reads");
    let reader = std::thread::spawn({
        let path = path.clone();
        move || std::fs::read_to_string(path).unwrap()
    });
    let open = || AccessLog::open(path.clone(), AccessLogFormat::Json).ok();
    let log = wait_for(SOON, "a reader of the pipe", open);
    // More than a pipe holds: the log waits for its reader, and drops nothing.
    let target = format!("/{}", "a".repeat(1000));
    for _ in 0..200 {
        drop(log.begin(&request(&target, "b"), None));
    }
    drop(log);
    assert_eq!(join(reader, "the end of the pipe").lines().count(), 200);
}

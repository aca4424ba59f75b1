//! The operator's commands, and the admin listener.

use super::*;
use hexad_tests::operator::open_in_browser;
use hexad_tests::wait::line_with;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn a_command_does_not_wait_for_ever_for_a_host_that_does_not_answer() {
    // The kernel accepts connections to it, but no process answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let output = run(&["status", "--admin", &url, "--timeout", "200ms"], &[("HEXAD_ADMIN_TOKEN", "t")]);
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(error.contains("did not answer within 0.2 s") && error.contains(&url), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_listener_that_other_machines_can_reach_is_warned_about() {
    let arguments = ["--threads", "1", "--admin", "0.0.0.0:0"];
    let mut server = serve(|command| command.args(arguments).env("RUST_LOG", "warn").stderr(Stdio::piped()));
    let log = server.take_log().expect("piped");
    server.signal("TERM");
    let (line, _) = line_with(SOON, "other machines can reach the admin listener", BufReader::new(log).lines());
    assert!(line.is_some_and(|line| line.contains("WARN")));
}

#[test]
fn a_browser_gets_the_path_of_a_private_page_and_no_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = serve_in(folder.path(), |command| command);
    let (arguments, printed) = open_in_browser(&server, folder.path());
    let (_, code) = printed.split_once("code=").unwrap_or_else(|| panic!("{printed}"));
    let [page] = &arguments[..] else { panic!("{arguments:?}") };
    assert!(!page.contains(code), "{page}");
    let mode = std::fs::metadata(page).expect("a page").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(page).expect("a page");
    assert!(text.contains(&format!("content=\"0;url={printed}\"")), "{text}");
    server.signal("TERM");
    server.wait();
    assert!(!std::path::Path::new(page).exists(), "it ends with the host");
}

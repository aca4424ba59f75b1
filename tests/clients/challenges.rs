//! The output and actions of clients whose token is refused. They read the challenges of a 401.

use super::bun::Bun;
use super::*;

const UNKNOWN: &str = "glpat-unknown-0000000000000001";

fn registry(server: &Server) -> String {
    format!("{}/api/v4/packages/npm/", server.url)
}

#[test]
fn package_managers_say_that_a_token_is_refused() {
    let Some(server) = server() else { return };
    let machine = Machine::new();
    let folder = machine.folder("here");
    Npm::OnPath.sign_in(&machine, &registry(&server), UNKNOWN);
    let said = Npm::OnPath.run(&machine, &folder, &["whoami"]).refused();
    assert!(said.contains("E401") && said.contains("your authentication token seems to be invalid"), "{said}");
    Pnpm.sign_in(&machine, &registry(&server), UNKNOWN);
    let pnpm = Pnpm.run(&machine, &folder, &["whoami"]);
    Bun.sign_in(&machine, &registry(&server), UNKNOWN);
    for said in [pnpm, Bun.run(&machine, &folder, &["pm", "whoami"])] {
        let text = said.stdout + &said.stderr;
        assert!(!said.success && text.contains("401"), "{text}");
    }
}

#[test]
fn curl_signs_in_to_git_by_the_scheme_that_it_knows() {
    let Some(server) = server() else { return };
    let machine = Machine::new();
    let status = |path: &str, token: &str| {
        let (url, user) = (format!("{}/{path}", server.url), format!("any:{token}"));
        let arguments = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "--anyauth", "-u", &user, &url];
        machine.run(&machine.folder("here"), "curl", &arguments).ok()
    };
    let refs = format!("api/v4/projects/{PRIVATE}/repository.git/info/refs?service=git-upload-pack");
    assert_eq!(status(&refs, DEVELOPER), "200");
    assert_eq!(status(&refs, UNKNOWN), "401");
    assert_eq!(status("api/v4/packages/npm/-/whoami", DEVELOPER), "200", "the registry takes a token as a password");
    assert_eq!(status("api/v4/user", DEVELOPER), "401", "the API takes no password");
}

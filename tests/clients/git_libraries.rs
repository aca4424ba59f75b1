//! Libraries that implement git's protocol: libgit2 (pygit2, and cargo), dulwich and isomorphic-git. And GitPython,
//! which runs git.

use super::*;
use hexad_tests::http;
use hexad_tests::repository::{Repository, git};
use hexad_tests::suggestions::{Suggestions, import_repository};

/// The same history in a private and in a public project.
fn filled_server() -> Option<(Server, Repository)> {
    let server = server()?;
    let repository = Repository::empty();
    for number in 1..=20 {
        repository.write(&format!("folder/{}", number % 5), format!("{number}\n").repeat(number).as_bytes());
        repository.write("long", (0..200 * number).map(|line| format!("{line}\n")).collect::<String>().as_bytes());
        repository.commit(&format!("commit {number}"));
    }
    repository.git(&["tag", "-a", "v1", "-m", "first", "HEAD~10"]);
    repository.git(&["tag", "light"]);
    for project in [PRIVATE, PUBLIC] {
        import_repository(&server, project, &repository, &[]);
    }
    Some((server, repository))
}

/// Runs a script of this folder, which clones, pushes and fetches, and compares its report and its clones with the
/// repository.
fn run(program: &str, script: &str, libraries: &str, client: Option<&str>) {
    let Some((server, repository)) = filled_server() else { return };
    let machine = Machine::new();
    let (private, public) = (format!("{}/acme/labs/secret.git", server.url), format!("{}/acme/open.git", server.url));
    let folder = machine.folder("clones");
    let work = folder.display().to_string();
    let more: Vec<&str> = client.into_iter().chain([private.as_str(), DEVELOPER, &public, &work]).collect();
    let seen = report(&machine, &folder, program, script, libraries, &more);

    let head = repository.text(&["rev-parse", "main"]);
    let service = Repository::clone(&Suggestions::new(&server, PRIVATE, DEVELOPER).clone_url());
    let pushed = service.text(&["rev-parse", "origin/by-client"]);
    for (name, expected) in [
        ("head", json!(head)),
        ("commits", json!(20)),
        ("shallow", json!([head, 1])),
        ("public", json!(head)),
        ("pushed", json!(pushed)),
        ("fetched", json!(pushed)),
        ("refused", json!(true)),
    ] {
        assert_eq!(seen[name], expected, "{name}: {seen:#}");
    }
    assert_eq!(service.text(&["rev-parse", "origin/by-client~"]), head);
    for clone in ["first", "second", "shallow", "public"] {
        check_clone(&folder.join(clone), &repository);
    }
}

/// git finds nothing wrong with a clone, and its files are those of the repository.
#[track_caller]
fn check_clone(clone: &Path, repository: &Repository) {
    let fsck = git(clone, &["fsck", "--full", "--strict"]);
    assert!(fsck.status.success(), "{}: {}", clone.display(), String::from_utf8_lossy(&fsck.stderr));
    let files = String::from_utf8(git(clone, &["ls-tree", "-r", "origin/main"]).stdout).expect("UTF-8");
    assert_eq!(files.trim_end(), repository.text(&["ls-tree", "-r", "main"]), "{}", clone.display());
}

tests_of! {
    pygit2: run("python3", "git_client.py", "python", Some("pygit2"));
    dulwich: run("python3", "git_client.py", "python", Some("dulwich"));
    git_python: run("python3", "git_client.py", "python", Some("GitPython"));
    isomorphic_git: run("node", "git_client.mjs", "clients", None);
}

#[test]
fn cargo_fetches_a_crate_of_a_private_repository() {
    let Some((server, repository)) = filled_server() else { return };
    repository.write("Cargo.toml", b"[package]\nname = \"shared\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    repository.write("src/lib.rs", b"pub fn answer() -> u8 {\n    42\n}\n");
    let commit = repository.commit("a crate");
    repository.git(&["tag", "-a", "v2", "-m", "second"]);
    import_repository(&server, PRIVATE, &repository, &[]);

    let machine = Machine::new();
    let host = server.url.trim_start_matches("http://");
    machine.write(
        "work/Cargo.toml",
        &format!(
            "[workspace]\n[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [dependencies]\nshared = {{ git = \"http://git:{DEVELOPER}@{host}/acme/labs/secret.git\", tag = \"v2\" }}\n"
        ),
    );
    machine.write("work/src/main.rs", "fn main() {}\n");
    // The cargo that runs this test, with rustc beside it. Its git client is libgit2.
    let cargo = std::env::var("CARGO").expect("cargo names itself to tests");
    let folder = machine.folder("work");
    let beside = Path::new(&cargo).parent().expect("a folder").display().to_string();
    let path = format!("PATH={beside}:{}", std::env::var("PATH").expect("a PATH"));
    machine.run(&folder, "env", &[&path, &cargo, "fetch"]).ok();
    let lock = std::fs::read_to_string(folder.join("Cargo.lock")).expect("cargo wrote it");
    assert!(lock.contains(&format!("?tag=v2#{commit}")), "{lock}");
}

#[test]
fn large_files_are_said_to_be_unsupported() {
    let server = forge::server(&[]);
    let url = format!("{}/acme/labs/secret.git/info/lfs/objects/batch", server.url);
    let request = http::agent().post(url).content_type("application/vnd.git-lfs+json");
    let answer = http::read(request.send(r#"{"operation":"upload","objects":[]}"#).expect("an answer"));
    let answer = answer.expect("an answer").expect(501);
    assert!(answer.json()["message"].as_str().expect("a message").starts_with("Git LFS is not supported"));
}

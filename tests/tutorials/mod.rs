//! The tutorials in `docs/tutorials`, run as they are printed.
//!
//! - The `sh` blocks of a page run in order in one bash, which the first failing command ends. It begins in an empty
//!   folder.
//! - `hexad` on the `PATH` is the program under test with the forge in it, as `make dist` makes it.
//! - Free ports take the places of 8080 and 8081. The URL of a server of the test takes the place of PostgreSQL's.
//! - In a page that needs a clone, `hexad` in the folder leads to this one.
//! - Each line of a `text` block is in the output of the block before it, in this order. `…` stands for any text.

use hexad_tests::postgres::{self, Postgres};
use hexad_tests::server::{program, root, target};
use hexad_tests::wait;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a page may take, and how long the bundled program may take to be made.
const DEADLINE: Duration = Duration::from_secs(300);

/// The URL that the page about PostgreSQL prints.
const PRINTED_URL: &str = "postgres://hexad@127.0.0.1:5432/hexad?sslmode=disable";

/// Before the output of each block.
const MARK: &str = "--- the output of the next block ---";

/// A command of a page, and the output that the page prints for it.
struct Block {
    commands: String,
    expected: String,
}

/// The blocks of a page. An `sh` block begins one, and a `text` block belongs to the one before it.
fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut open): (Vec<Block>, Option<&str>) = (Vec::new(), None);
    for line in page.lines() {
        match (open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                assert!(["sh", "text"].contains(&language), "a block of `{language}` that nothing runs");
                open = Some(language);
                if language == "sh" {
                    blocks.push(Block { commands: String::new(), expected: String::new() });
                }
            }
            (Some(_), Some(_)) => open = None,
            (Some(language), None) => {
                let block = blocks.last_mut().expect("a block of commands before its output");
                let text = if language == "sh" { &mut block.commands } else { &mut block.expected };
                *text += line;
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The first printed line that the output lacks.
fn missing<'a>(expected: &'a str, output: &str) -> Option<&'a str> {
    let mut lines = output.lines();
    expected.lines().find(|wanted| !lines.any(|line| matches(wanted, line)))
}

/// Whether a line has the parts of the printed line, in this order.
fn matches(wanted: &str, line: &str) -> bool {
    let mut rest = line;
    wanted.split('…').map(str::trim).all(|part| {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
        true
    })
}

/// The program under test with the forge in it. It is made once for each program and its components.
fn bundled_program() -> PathBuf {
    let folder = target().join("tmp/bundled");
    fs::create_dir_all(&folder).expect("a folder");
    let lock = File::create(folder.join("lock")).expect("a file");
    lock.lock().expect("a lock");
    let mut parts = vec![program(), root().join("spin.toml")];
    let built = fs::read_dir(root().join("dist")).expect("`make components` makes dist/");
    parts.extend(built.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()));
    parts.sort();
    let mut digest = Sha256::new();
    parts.iter().for_each(|path| digest.update(fs::read(path).expect("readable")));
    let own = folder.join(hex::encode(digest.finalize()));
    if own.is_dir() {
        return own.join("hexad");
    }
    for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            fs::remove_dir_all(entry).expect("an earlier program can be removed");
        }
    }
    let made = tempfile::tempdir_in(&folder).expect("a folder");
    let mut command = Command::new(program());
    command.current_dir(root()).args(["bundle", "spin.toml", "--output"]).arg(made.path().join("hexad"));
    let mut process = command.stdin(Stdio::null()).spawn().expect("the program runs");
    assert!(wait::exit(DEADLINE, "the bundled program", &mut process).success(), "hexad bundle failed");
    fs::rename(made.keep(), &own).expect("a folder that is complete");
    own.join("hexad")
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port().to_string()
}

/// The shell of a reader, without the variables of this test run.
fn shell(folder: &Path) -> Command {
    let bundled = bundled_program();
    let mut path = vec![bundled.parent().expect("a folder").to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    // `timeout` ends a page that hangs, so that the failure has its output.
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240", "bash", "-c"]);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["CARGO", "NEXTEST", "HEXAD", "RUST", "SPIN", "npm_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&*name);
        }
    }
    let kept = ["CARGO_HOME", "RUSTUP_HOME"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.envs(kept).env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true");
    command.env("PATH", std::env::join_paths(path).expect("a PATH"));
    command.env("NPM_CONFIG_CACHE", folder.join(".npm")).env("NPM_CONFIG_USERCONFIG", folder.join(".npmrc"));
    command.env("NPM_CONFIG_UPDATE_NOTIFIER", "false").env("NPM_CONFIG_FUND", "false").env("NPM_CONFIG_AUDIT", "false");
    command
}

/// Runs a page, and compares its output.
fn run(page: &str, url: Option<&str>) {
    let text = fs::read_to_string(root().join("docs/tutorials").join(page)).expect("a page");
    let blocks = blocks(&text);
    assert!(!blocks.is_empty(), "{page} has no blocks");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut script = "set -e\n".to_owned();
    for block in &blocks {
        script += &format!("echo; echo '{MARK}'\n{}", block.commands);
    }
    script = script.replace("8080", &free_port()).replace("8081", &free_port());
    if let Some(url) = url {
        assert!(script.contains(PRINTED_URL), "{page} does not print {PRINTED_URL}");
        script = script.replace(PRINTED_URL, url);
    }
    if script.contains("cd hexad") {
        std::os::unix::fs::symlink(root(), folder.path().join("hexad")).expect("a link");
    }
    let log = tempfile::NamedTempFile::new().expect("a file");
    let append = || Stdio::from(fs::OpenOptions::new().append(true).open(log.path()).expect("a file"));
    let mut command = shell(folder.path());
    command.arg(&script).current_dir(folder.path()).stdin(Stdio::null()).stdout(append()).stderr(append());
    // Processes that the page leaves behind are in the group.
    let mut process = command.process_group(0).spawn().expect("bash runs");
    let group = format!("-{}", process.id());
    let status = wait::exit(DEADLINE, page, &mut process);
    let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status();
    let output = fs::read_to_string(log.path()).expect("text");
    assert!(status.success(), "{page}: {status:?}\n{output}");
    let printed: Vec<&str> = output.split(MARK).skip(1).collect();
    assert_eq!(printed.len(), blocks.len(), "{output}");
    for (block, printed) in blocks.iter().zip(printed) {
        let missing = missing(&block.expected, printed);
        assert!(missing.is_none(), "{page}: no line has {missing:?}. The output of\n{}\nis\n{printed}", block.commands);
    }
}

#[test]
fn first_package() {
    if std::env::var("HEXAD_CLIENTS").as_deref() != Ok("no") {
        run("first-package.md", None);
    }
}

#[test]
fn component() {
    run("component.md", None);
}

#[test]
fn swap_under_load() {
    run("swap-under-load.md", None);
}

#[test]
fn two_hosts() {
    if postgres::is_enabled() {
        let server = Postgres::start(&[]);
        run("two-hosts.md", Some(&server.new_database("forge")));
    }
}

#[test]
fn every_tutorial_is_run() {
    let folder = fs::read_dir(root().join("docs/tutorials")).expect("a folder");
    let mut pages: Vec<_> = folder.map(|entry| entry.expect("an entry").file_name()).collect();
    pages.sort();
    assert_eq!(pages, ["component.md", "first-package.md", "swap-under-load.md", "two-hosts.md"]);
}

#[test]
fn printed_output_is_compared() {
    let found = blocks("```sh\na\n```\nx\n```text\none … three\n```\n```sh\nb\n```\n");
    assert_eq!(found.iter().map(|block| &*block.commands).collect::<Vec<_>>(), ["a\n", "b\n"]);
    assert_eq!(missing(&found[0].expected, "zero\none two three\n"), None);
    assert_eq!(missing(&found[0].expected, "three two one\n"), Some("one … three"));
    assert_eq!(missing("a\nb\n", "b\na\n"), Some("b"));
}

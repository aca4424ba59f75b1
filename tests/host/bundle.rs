//! `hexad bundle` makes a program that carries an application, and serves it where there is no other file.

use super::*;
use hexad_tests::server::output;
use hexad_tests::wait::line_with;

/// An application of one component, in a folder of its own.
fn write_application(folder: &Path, source: &str) -> PathBuf {
    std::fs::create_dir_all(folder.join("parts")).expect("a folder");
    std::fs::copy(root().join("dist/fixtures/hello.wasm"), folder.join("parts/hello.wasm")).expect("a copy");
    let path = folder.join("spin.toml");
    let manifest = format!(
        "spin_manifest_version = 2\napplication = {{ name = \"hello\" }}\n[[trigger.http]]\nroute = \"/...\"\n\
         component = \"hello\"\n[component.hello]\nsource = {source:?}\n"
    );
    std::fs::write(&path, manifest).expect("a file");
    path
}

fn make(folder: &Path) -> PathBuf {
    let manifest = write_application(&folder.join("application"), "parts/hello.wasm");
    let program = folder.join("hello");
    let made = run(&["bundle", text(&manifest), "--output", text(&program)], &[]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    program
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Without the environment, in a working folder.
fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(folder).args(["up", "--listen", "127.0.0.1:0"]).stdin(Stdio::null());
    command
}

/// Starts the program in a folder, and returns the line of its log that says which application it serves.
fn start(program: &Path, folder: &Path) -> (Server, String) {
    let mut command = command(program, folder);
    command.stderr(Stdio::piped());
    // Another data folder, so that no compiled code of other tests is used.
    let mut server = Server::spawn(command, &folder.join("elsewhere"));
    let lines = BufReader::new(server.take_log().expect("a pipe")).lines();
    let (line, lines) = line_with(SOON, "serving the application", lines);
    std::thread::spawn(move || lines.for_each(drop));
    server.get("hello", "").expect(200);
    (server, line.expect("a line of the log"))
}

/// The compiled code in a working folder.
fn code(folder: &Path) -> Vec<u8> {
    let mut files = std::fs::read_dir(folder.join("data/code")).expect("a folder");
    let file = files.next().expect("a file").expect("an entry");
    assert!(files.next().is_none(), "there is one component");
    std::fs::read(file.path()).expect("readable")
}

#[test]
fn a_program_that_carries_an_application_needs_no_other_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = make(folder.path());
    std::fs::remove_dir_all(folder.path().join("application")).expect("a folder");
    let empty = folder.path().join("empty");
    std::fs::create_dir_all(empty.join("data/bundle/of-an-earlier-program.new/x")).expect("a folder");

    let (server, line) = start(&program, &empty);
    assert!(line.contains("that this program carries"), "{line}");
    server.kill();
    let carried = code(&empty);
    let (server, _) = start(&program, &empty);
    server.kill();
    assert!(code(&empty) == carried, "the code that the program carries was replaced");

    assert_eq!(std::fs::read_dir(empty.join("data/bundle")).expect("a folder").count(), 1, "the earlier one is gone");

    // A program that carries an application makes the same programs as one without.
    write_application(&empty, "parts/hello.wasm");
    let again = folder.path().join("again");
    let made = output(Command::new(&program).current_dir(&empty).args(["bundle", "--output", text(&again)]));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let [first, second] = [&program, &again].map(|path| std::fs::read(path).expect("readable"));
    assert!(first == second, "the bytes differ");

    // A manifest of the working folder counts more.
    let (server, line) = start(&again, &empty);
    assert!(line.contains("of this folder"), "{line}");
    server.kill();

    let native = folder.path().join("native");
    write_application(&native, "parts/hello.wasm");
    let (server, _) = start(&program, &native);
    server.kill();
    assert!(code(&native) != carried, "code that was compiled for this processor has other settings");
}

#[test]
fn a_damaged_program_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = make(folder.path());
    let whole = std::fs::read(&program).expect("readable");
    for (name, change, words) in [
        ("archive", whole.len() - 1000, "the program's file is damaged"),
        ("length", whole.len() - 42, "its trailer is damaged"),
        ("mark", whole.len() - 1, "spin.toml"),
    ] {
        let mut damaged = whole.clone();
        damaged[change] ^= 0x40;
        std::fs::write(&program, damaged).expect("a file");
        let refused = output(&mut command(&program, folder.path()));
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && error.contains(words), "{name}: {error}");
    }
}

#[test]
fn a_component_outside_of_the_manifests_folder_is_not_carried() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for source in [text(&root().join("dist/fixtures/hello.wasm")).to_owned(), "../b/parts/hello.wasm".to_owned()] {
        write_application(&folder.path().join("b"), "parts/hello.wasm");
        let manifest = write_application(&folder.path().join("a"), &source);
        let program = folder.path().join("hello");
        let made = run(&["bundle", text(&manifest), "--output", text(&program)], &[]);
        let error = String::from_utf8_lossy(&made.stderr);
        assert!(!made.status.success() && error.contains("is not below the manifest's folder"), "{error}");
        assert!(!program.exists(), "nothing is left behind");
    }
}

/// A manifest with the probe at `route`, and with rows of its tables.
fn write_addition(folder: &Path, route: &str, keys: &str, rows: &str) -> PathBuf {
    let probe = root().join("dist/fixtures/probe.wasm");
    let manifest = format!(
        "spin_manifest_version = 2\napplication = {{ name = \"more\" }}\n{rows}\n[[trigger.http]]\nroute = {route:?}\n\
         component = \"probe\"\n[component.probe]\nsource = {probe:?}\nkey_value_stores = [\"default\"]\nallowed_outbound_hosts = []\n\
         variables = {{ greeting = \"{{{{ greeting }}}}\" }}\n[component.probe.tool.hexad]\nwrite = [{keys:?}]\n"
    );
    std::fs::create_dir_all(folder).expect("a folder");
    let path = folder.join("spin.toml");
    std::fs::write(&path, manifest).expect("a file");
    path
}

#[test]
fn a_manifest_is_added_to_the_application_that_a_program_carries() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = make(folder.path());
    // The added manifest is the one of the working folder, which is not served by itself.
    let working = folder.path().join("working");
    let own = "[variables]\ngreeting = { default = \"from the manifest\" }";
    write_addition(&working, "/probe/...", "more/", own);
    let start = |value: Option<&str>| {
        let mut command = command(&program, &working);
        command.args(["--with", "spin.toml"]).envs(value.map(|value| ("SPIN_VARIABLE_GREETING", value)));
        Server::spawn(command, &working.join("data"))
    };
    for (value, greeting) in [(None, "from the manifest"), (Some("from outside"), "from outside")] {
        let server = start(value);
        assert_eq!(server.get("hello", "").expect(200).text(), "hello\n");
        assert_eq!(get(server.address(), "variable?name=greeting").as_deref(), Some(greeting));
        server.kill();
    }
}

#[test]
fn an_added_manifest_takes_nothing_of_the_forges() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let own = "[variables]\ngreeting = { default = \"\" }";
    let refused = |folder: &Path, manifest: &[&str], words: &str| {
        let data = folder.join("data");
        let arguments = ["up", "--listen", "127.0.0.1:0", "--data", text(&data), "--with"];
        let path = folder.join("spin.toml");
        let arguments: Vec<&str> = arguments.into_iter().chain([text(&path)]).chain(manifest.iter().copied()).collect();
        let ended = run(&arguments, &[]);
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        let sentences = error.lines().filter(|line| line.starts_with("hexad: ")).count();
        assert!(!ended.status.success() && error.contains(words) && sentences == 1, "{words}: {error}");
        assert!(!data.exists(), "nothing was stored");
    };
    let forge = root().join("spin.toml");
    let forge = ["--manifest", text(&forge)];
    for (name, route, keys, rows, words) in [
        (
            "route",
            "/api/v4/projects/:id/packages/npm/left-pad",
            "more/",
            own,
            "answers paths of it at /api/v4/projects/",
        ),
        ("page", "/-/more", "more/", own, "answers paths of it at /-/..."),
        ("repository", "/:group/:project/...", "more/", own, "answers paths of it at /..."),
        ("keys", "/more", "directory/", own, "meet \"directory/\" of the application's component admin"),
        ("all-keys", "/more", "", own, "in the store \"default\"; say write = [\"probe/\"]"),
        (
            "variable",
            "/more",
            "more/",
            "[variables]\ngreeting = { default = \"\" }\nbootstrap_admin_token = { default = \"\" }",
            "[variables] bootstrap_admin_token: the application declares",
        ),
        ("undeclared", "/more", "more/", "", "it refers to `greeting`, which is not in [variables]"),
    ] {
        let folder = folder.path().join(name);
        write_addition(&folder, route, keys, rows);
        refused(&folder, &forge, words);
    }
    let equal = folder.path().join("id");
    let path = write_addition(&equal, "/more", "more/", own);
    let renamed = std::fs::read_to_string(&path).expect("readable").replace("component.probe", "component.admin");
    std::fs::write(&path, renamed.replace("component = \"probe\"", "component = \"admin\"")).expect("a file");
    refused(&equal, &forge, "[component.admin]: the application has a component of this id");

    // Of itself, this program carries nothing.
    let alone = output(command(&hexad_tests::server::program(), &equal).args(["--with", "spin.toml"]));
    let error = String::from_utf8_lossy(&alone.stderr);
    assert!(!alone.status.success() && error.contains("there is nothing to add --with to"), "{error}");
}

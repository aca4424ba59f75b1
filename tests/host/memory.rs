//! Instances of several components that share the memory of the process.

use super::*;

/// The maximum number of instances of a process.
const INSTANCES: usize = 512;

#[test]
fn idle_instances_make_room_for_a_busy_component() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (manifest, data) = (write_manifest(folder.path()), folder.path().join("data"));
    let hello = root().join("dist/fixtures/hello.wasm");
    let more = format!(
        "\n[component.probe.tool.hexad]\ninstances = 1000\ninstances_per_client = 1000\nidle_timeout = \"1h\"\n\
         [[trigger.http]]\nroute = \"/probe/of-another\"\ncomponent = \"hello\"\n[component.hello]\nsource = {hello:?}\n"
    );
    edit(&manifest, |text| text + &more);
    let mut command = up(&manifest, &data);
    command.args(["--threads", "2"]);
    let server = Server::spawn(command, &data);
    let operator = Operator::of(&server);
    // Each upload has an instance until its body has arrived.
    let uploads = (0..INSTANCES).map(|_| {
        let mut upload = wait::connect(server.address());
        let head = "POST /probe/count HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 1\r\n\r\n";
        upload.write_all(head.as_bytes()).expect("the server reads");
        upload
    });
    let uploads: Vec<_> = uploads.collect();
    let has_all = || operator.metric("hexad_pool_instances") >= INSTANCES as u64;
    wait_until(SOON, "an instance for each upload", has_all);
    for mut upload in uploads {
        upload.write_all(b"x").expect("the server reads");
        let mut answer = String::new();
        upload.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(operator.metric("hexad_pool_instances"), INSTANCES as u64, "all of them idle");
    // Each of these needs an instance of its own.
    std::thread::scope(|scope| {
        let requests: Vec<_> = (0..40).map(|_| scope.spawn(|| get(server.address(), "of-another"))).collect();
        for request in requests {
            assert_eq!(request.join().expect("no panic").as_deref(), Some("hello\n"));
        }
    });
}

#[test]
fn a_budget_that_is_too_small_is_told_before_anything_is_served() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (manifest, data) = (write_manifest(folder.path()), folder.path().join("data"));
    let path = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    let (manifest, data) = (path(&manifest), path(&data));
    let arguments = ["up", "--listen", "127.0.0.1:0", "--memory", "300MiB", "--manifest", &manifest, "--data", &data];
    let output = run(&arguments, &[]);
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(!output.status.success() && error.contains("hexad: component `probe`"), "{error}");
    assert!(error.contains("300.0 MiB") && error.contains("--memory"), "{error}");
}

//! After a restart, the host serves the components that were swapped in before.

use crate::*;

#[tokio::test]
async fn a_restart_serves_the_version_that_was_swapped_in() {
    let folder = tempfile::tempdir().unwrap();
    let start = || fixture::start(&folder, &manifest(""), &[], store()).unwrap();
    let host = start();
    let wasm = variant("incoming", 1);
    let (old, new) = (host.services()[0].current().digest, Digest::of(&wasm));
    host.deployer().swap(&swap_request("incoming", wasm)).unwrap();
    drop(host);

    let host = start();
    assert_eq!(host.services()[0].current().digest, new);
    assert_eq!(host.services()[0].rollback_target(), Some(old));
    // A rollback loads the code that was served before the swap.
    assert_eq!(host.deployer().roll_back("incoming", "the tests", None).unwrap().digest, old);
    drop(host);
    assert_eq!(start().services()[0].current().digest, old);
}

#[tokio::test]
async fn the_audit_log_says_that_a_trial_ended_with_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let start = || fixture::start(&folder, &manifest(""), &[], store()).unwrap();
    let rollbacks = || audit(&folder).into_iter().filter(|line| line["action"] == "rollback").collect::<Vec<_>>();
    let host = start();
    let old = host.services()[0].current().digest;
    let wasm = variant("incoming", 1);
    let canary = Digest::of(&wasm);
    let request = SwapRequest { canary: Some(trial(5.0)), ..swap_request("incoming", wasm) };
    host.deployer().swap(&request).unwrap();
    drop(host);
    assert!(rollbacks().is_empty());

    let host = start();
    wait_until(SOON, "the line about the trial", || !rollbacks().is_empty());
    let line = rollbacks().pop().unwrap();
    assert_eq!((&line["digest"], &line["previous"]), (&old.to_string().into(), &canary.to_string().into()), "{line}");
    assert_eq!(line["reason"], "the host was started anew during the trial");
    // The canary can be tried again. The supervisor does not end an ended trial again.
    host.deployer().swap(&request).unwrap();
    host.deployer().roll_back("incoming", "the tests", None).unwrap();
    drop(host);
    // The supervisor looks at the log before it ends.
    drop(start());
    assert_eq!(rollbacks().len(), 2);
}

#[tokio::test]
async fn a_restored_backup_serves_the_version_that_was_swapped_in() {
    let folder = tempfile::tempdir().unwrap();
    let host = fixture::start(&folder, &manifest(""), &[], store()).unwrap();
    let wasm = variant("incoming", 1);
    let (old, new) = (host.services()[0].current().digest, Digest::of(&wasm));
    host.deployer().swap(&swap_request("incoming", wasm)).unwrap();
    let (data, target) = (folder.path().join("data"), folder.path().join("copy"));
    hexad::store::sqlite::backup(&data, &target, || Ok(hexad::deploy::read_deployed(&data).unwrap())).unwrap();

    let restored = tempfile::tempdir().unwrap();
    std::fs::create_dir(restored.path().join("data")).unwrap();
    std::fs::rename(&target, restored.path().join("data").join(hexad::store::sqlite::FILE_NAME)).unwrap();
    for _ in 0..2 {
        let host = fixture::start(&restored, &manifest(""), &[], store()).unwrap();
        assert_eq!(host.services()[0].current().digest, new);
    }
    let host = fixture::start(&restored, &manifest(""), &[], store()).unwrap();
    assert_eq!(host.deployer().roll_back("incoming", "the tests", None).unwrap().digest, old);
}

#[test]
fn a_source_that_changed_after_the_swap_is_served_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("incoming.wasm");
    std::fs::copy(guest("incoming"), &source).unwrap();
    let text = manifest("").replace(&format!("{:?}", guest("incoming")), &format!("{source:?}"));
    let start = || fixture::start(&folder, &text, &[], store()).unwrap();
    let host = start();
    host.deployer().swap(&swap_request("incoming", variant("incoming", 1))).unwrap();
    drop(host);
    std::fs::write(&source, variant("incoming", 2)).unwrap();
    let host = start();
    assert_eq!(host.services()[0].current().digest, Digest::of(&variant("incoming", 2)));
    let last = audit(&folder).pop().unwrap();
    assert_eq!((&last["action"], &last["by"]), (&"supersede".into(), &"hexad".into()));
    drop(host);
    // A missing source counts as unchanged.
    let host = start();
    host.deployer().swap(&swap_request("incoming", variant("incoming", 1))).unwrap();
    drop(host);
    std::fs::remove_file(&source).unwrap();
    assert_eq!(start().services()[0].current().digest, Digest::of(&variant("incoming", 1)));
}

#[test]
fn a_damaged_component_is_not_served_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let host = fixture::start(&folder, &manifest(""), &[], store()).unwrap();
    let wasm = variant("incoming", 1);
    host.deployer().swap(&swap_request("incoming", wasm.clone())).unwrap();
    drop(host);
    let kept = folder.path().join(format!("data/components/{}.wasm", Digest::of(&wasm)));
    std::fs::write(kept, variant("incoming", 2)).unwrap();
    let error = fixture::start(&folder, &manifest(""), &[], store()).err().unwrap().to_string();
    assert!(error.contains("`incoming`") && error.contains("digest") && error.contains("active.json"), "{error}");
}

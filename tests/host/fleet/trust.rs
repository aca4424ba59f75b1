//! Policies of the hosts: which components each host trusts, and what happens when a host withdraws its trust.

use super::{Fleet, Member, open_read, version};
use sha2::Digest as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A list of trusted components. If it is a pipe, a host that reads it waits for the test.
pub struct List(tempfile::TempDir);

impl List {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().join("list")
    }

    /// Replaces the list atomically by one of these versions.
    pub fn set(&self, versions: &[u32]) {
        let next = self.0.path().join("next");
        std::fs::write(&next, digests(versions)).expect("a file");
        std::fs::rename(next, self.path()).expect("renamed");
    }

    pub fn set_pipe(&self) {
        let next = self.0.path().join("next");
        assert!(Command::new("mkfifo").arg(&next).status().expect("mkfifo runs").success());
        std::fs::rename(next, self.path()).expect("renamed");
    }
}

pub fn digests(versions: &[u32]) -> String {
    let digests: Vec<String> =
        versions.iter().map(|number| hex::encode(sha2::Sha256::digest(version(*number)))).collect();
    digests.join("\n")
}

#[test]
fn a_host_that_cannot_serve_a_component_refuses_it_for_all_with_its_name_and_reason() {
    let Some(fleet) = Fleet::start() else { return };
    let free = fleet.host(&[]);
    let (list, strict) = fleet.strict_host(&[0]);
    let refused = free.operator().swap("hello", &version(1));
    let reason = refused.text();
    let name = strict.server.data.canonicalize().expect("a folder").display().to_string();
    assert!(refused.status == 409 && reason.contains(&name) && reason.contains("not trusted"), "{reason}");
    assert_eq!([free.serves(), strict.serves()], [0; 2]);
    // The refused swap leaves nothing behind that blocks the next one.
    list.set(&[0, 1]);
    free.operator().swap("hello", &version(1)).expect(200);
    assert_eq!([free.serves(), strict.serves()], [1; 2]);
    assert_eq!(free.audit(), ["swap refused", "swap done"]);
}

#[test]
fn a_refusal_counts_for_its_proposal_and_not_for_a_later_one_of_the_same_component() {
    let Some(fleet) = Fleet::start() else { return };
    let free = fleet.host(&[]);
    let [(list, first), (other_list, second)] = [(); 2].map(|()| fleet.strict_host(&[0]));
    let (lists, hosts) = ([list, other_list], [first, second]);
    lists.iter().for_each(List::set_pipe);
    std::thread::scope(|scope| {
        let swap = scope.spawn(|| free.operator().swap("hello", &version(1)));
        // This returns once each host reads its list.
        let [mut first, mut second] = lists.each_ref().map(|list| open_read(&list.path()));
        lists.iter().for_each(|list| list.set(&[0, 1]));
        first.write_all(digests(&[0]).as_bytes()).expect("written");
        drop(first);
        let refused = swap.join().expect("a swap");
        assert!(refused.status == 409 && refused.text().contains("not trusted"), "{}", refused.text());
        // The other host refuses a component after the end of its proposal.
        second.write_all(digests(&[0]).as_bytes()).expect("written");
    });
    free.operator().swap("hello", &version(1)).expect(200);
    assert_eq!([free.serves(), hosts[0].serves(), hosts[1].serves()], [1; 3]);
}

/// If the canary were promoted, no host with this policy would serve.
#[test]
fn a_canary_that_is_trusted_no_more_is_not_promoted() {
    let Some(fleet) = Fleet::start() else { return };
    let list = List::new();
    let path = list.path();
    let strict = ["--allow-digests", path.to_str().expect("UTF-8")];
    list.set(&[0, 1]);
    let hosts = [fleet.host(&strict), fleet.host(&strict)];
    hosts[0].operator().swap("hello?percent=100&window=1h", &version(1)).expect(200);
    assert_eq!(hosts.each_ref().map(Member::serves), [1; 2]);
    list.set(&[0]);
    let refused = hosts[1].operator().post("/components/hello/promote");
    let reason = refused.text();
    assert!(refused.status == 403 && reason.contains("is not listed"), "{}: {reason}", refused.status);
    assert!(reason.contains("the trial in component `hello` was ended"), "{reason}");
    assert_eq!(hosts.each_ref().map(Member::serves), [0; 2]);
    for host in &hosts {
        let components = host.operator().get("/components").json();
        assert!(components[0]["canary"].is_null(), "{components}");
    }
}

#[test]
fn a_rollback_to_a_version_that_a_host_trusts_no_more_changes_nothing() {
    let Some(fleet) = Fleet::start() else { return };
    let first = fleet.host(&[]);
    let (list, second) = fleet.strict_host(&[0, 1]);
    let hosts = [first, second];
    hosts[0].operator().swap("hello", &version(1)).expect(200);
    assert_eq!(hosts.each_ref().map(Member::serves), [1; 2]);
    list.set(&[1]);
    let refused = hosts[0].operator().post("/components/hello/rollback");
    assert!(refused.status == 409 && refused.text().contains("not trusted"), "{}", refused.text());
    assert_eq!(hosts.each_ref().map(Member::serves), [1; 2]);
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    let output = output.expect("openssl is installed");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// For hosts that have a component, a signature by another key does not make it another component.
#[test]
fn a_host_finds_a_new_signature_of_what_it_has() {
    let Some(fleet) = Fleet::start() else { return };
    let list = List::new();
    list.set(&[0]);
    let folder = list.0.path();
    std::fs::write(folder.join("v1.wasm"), version(1)).expect("a file");
    let signature = |key: &str| {
        openssl(folder, &format!("genpkey -algorithm ed25519 -out {key}.key"));
        openssl(folder, &format!("pkey -in {key}.key -pubout -out {key}.pub"));
        openssl(folder, &format!("pkeyutl -sign -rawin -inkey {key}.key -in v1.wasm -out {key}.sig"));
        std::fs::read(folder.join(format!("{key}.sig"))).expect("a signature")
    };
    let signatures = ["old", "new"].map(signature);
    let [path, old, new] = [list.path(), folder.join("old.pub"), folder.join("new.pub")]
        .map(|path| path.into_os_string().into_string().expect("UTF-8"));
    let both = ["--allow-digests", &*path, "--trusted-key", &*old, "--trusted-key", &*new];
    let (first, second) = (fleet.host(&both), fleet.host(&both));
    for signature in signatures {
        first.operator().swap_signed("hello", &version(1), &signature).expect(200);
    }
    assert_eq!([first.serves(), second.serves()], [1; 2]);
    // The old key is no longer trusted.
    let Member { server, folder: kept } = second;
    server.stop();
    let server = fleet.host_in(kept.path(), &["--allow-digests", &path, "--trusted-key", &new]);
    let second = Member { server, folder: kept };
    assert_eq!(second.serves(), 1);
}

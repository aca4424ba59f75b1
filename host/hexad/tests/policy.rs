//! Which components the policy trusts. openssl makes the keys and signatures, to check that the host
//! reads its formats.

use crate::*;
use hexad::deploy::{Signature, TrustPolicy};
use std::path::PathBuf;
use std::process::Command;

/// A folder with the sources of a manifest, a list of trusted digests and a trusted key.
struct TrustFixture {
    folder: TempDir,
    policy: TrustPolicy,
}

impl TrustFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["probe", "incoming"] {
            std::fs::copy(guest(name), folder.path().join(format!("{name}.wasm"))).unwrap();
        }
        Self { folder, policy: TrustPolicy::default() }
    }

    /// The policy trusts these digests.
    fn with_digests(digests: &[Digest]) -> Self {
        let mut fixture = Self::new();
        fixture.policy.digests = Some(fixture.path("digests"));
        fixture.write_digests(digests);
        fixture
    }

    /// The policy trusts a new key, which has signed the sources.
    fn with_key() -> Self {
        let mut fixture = Self::new();
        fixture.take_new_key();
        fixture
    }

    fn take_new_key(&mut self) {
        let (pair, public) = (self.path("pair.pem"), self.path("public.pem"));
        openssl(&[&"genpkey", &"-algorithm", &"ed25519", &"-out", &pair]);
        openssl(&[&"pkey", &"-in", &pair, &"-pubout", &"-out", &public]);
        self.policy.keys = vec![public];
        for source in ["probe.wasm", "incoming.wasm"] {
            self.sign(&self.path(source));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write_digests(&self, digests: &[Digest]) {
        write_digests(&self.folder, digests);
    }

    /// Signs a file; the signature is beside it.
    fn sign(&self, path: &Path) {
        let (pair, signature) = (self.path("pair.pem"), Signature::beside(path));
        openssl(&[&"pkeyutl", &"-sign", &"-inkey", &pair, &"-rawin", &"-in", &path, &"-out", &signature]);
    }

    /// The signature of these bytes.
    fn signature(&self, wasm: &[u8]) -> Option<Signature> {
        let path = self.path("signed.wasm");
        std::fs::write(&path, wasm).unwrap();
        self.sign(&path);
        Signature::read(&Signature::beside(&path)).unwrap()
    }

    fn start(&self, watch: bool) -> Result<Host, StartError> {
        let mut text = manifest("");
        for name in ["probe", "incoming"] {
            text = text.replace(&format!("{:?}", guest(name)), &format!("\"{name}.wasm\""));
        }
        let options = HostOptions { policy: self.policy.clone(), watch, ..fixture::options(&self.folder, store()) };
        fixture::start_with(&self.folder, &text, &[], &options)
    }
}

fn openssl(arguments: &[&dyn AsRef<std::ffi::OsStr>]) {
    let output = Command::new("openssl").args(arguments.iter().map(AsRef::as_ref)).output();
    let output = output.expect("openssl is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn write_digests(folder: &TempDir, digests: &[Digest]) {
    let lines: String = digests.iter().map(|digest| format!("{digest}\n")).collect();
    std::fs::write(folder.path().join("digests"), lines).unwrap();
}

fn built_digest(name: &str) -> Digest {
    Digest::of(&std::fs::read(guest(name)).unwrap())
}

#[tokio::test]
async fn a_component_that_is_not_listed_is_refused() {
    let fixture = TrustFixture::with_digests(&[built_digest("probe"), built_digest("incoming")]);
    let host = fixture.start(false).unwrap();
    let server = Server { host, folder: fixture.folder };
    let new = variant("incoming", 1);
    let error = swap(&server, "incoming", new.clone()).unwrap_err();
    assert!(matches!(error, DeployError::Untrusted { .. }), "{error}");
    let expected = format!("its digest {} is not listed", Digest::of(&new));
    assert!(error.to_string().contains(&expected), "{error}");
    assert_eq!(digest(&server, "incoming"), built_digest("incoming"));
    assert_eq!(incoming(&server).await.0, 200);
    let line = audit(&server.folder).pop().unwrap();
    assert_eq!((&line["outcome"], &line["digest"]), (&"refused".into(), &Digest::of(&new).to_string().into()));
    assert!(line["reason"].as_str().unwrap().contains(&expected));

    // Every swap and every rollback reads the list again.
    write_digests(&server.folder, &[built_digest("probe"), Digest::of(&new)]);
    swap(&server, "incoming", new.clone()).unwrap();
    assert_eq!(audit(&server.folder).pop().unwrap()["trust"], "digest");
    let error = server.host.deployer().roll_back("incoming", "the tests", None).unwrap_err();
    assert!(matches!(error, DeployError::Untrusted { .. }), "{error}");
    assert_eq!(digest(&server, "incoming"), Digest::of(&new));
    write_digests(&server.folder, &[built_digest("probe"), built_digest("incoming")]);
    server.host.deployer().roll_back("incoming", "the tests", None).unwrap();
    assert_eq!(digest(&server, "incoming"), built_digest("incoming"));
}

#[test]
fn untrusted_components_stop_the_start() {
    let fixture = TrustFixture::with_digests(&[built_digest("probe")]);
    let error = fixture.start(false).err().unwrap().to_string();
    assert!(error.contains("`incoming`") && error.contains("incoming.wasm") && error.contains("not listed"), "{error}");
    let line = audit(&fixture.folder).pop().unwrap();
    assert_eq!((&line["action"], &line["outcome"]), (&"start".into(), &"refused".into()));

    // After a restart, a swapped component must still be trusted.
    let new = variant("incoming", 1);
    fixture.write_digests(&[built_digest("probe"), built_digest("incoming"), Digest::of(&new)]);
    let host = fixture.start(false).unwrap();
    host.deployer().swap(&swap_request("incoming", new.clone())).unwrap();
    drop(host);
    fixture.write_digests(&[built_digest("probe"), built_digest("incoming")]);
    let error = fixture.start(false).err().unwrap().to_string();
    assert!(error.contains(&Digest::of(&new).to_string()), "{error}");
    fixture.write_digests(&[built_digest("probe"), Digest::of(&new)]);
    assert_eq!(fixture.start(false).unwrap().services()[0].current().digest, Digest::of(&new));
}

#[test]
fn a_policy_that_cannot_be_read_stops_the_start() {
    let mut fixture = TrustFixture::new();
    fixture.policy.keys = vec![fixture.path("spin.toml")];
    let error = fixture.start(false).err().unwrap().to_string();
    assert!(error.contains("spin.toml") && error.contains("Ed25519"), "{error}");
}

#[test]
fn a_signed_component_is_trusted_after_a_restart_as_well() {
    let fixture = TrustFixture::with_key();
    let host = fixture.start(false).unwrap();
    let (new, other) = (variant("incoming", 1), variant("incoming", 2));
    let signed = |signature| SwapRequest { signature, ..swap_request("incoming", new.clone()) };
    for signature in [None, fixture.signature(&other)] {
        let error = host.deployer().swap(&signed(signature)).unwrap_err();
        assert!(matches!(error, DeployError::Untrusted { .. }), "{error}");
    }
    host.deployer().swap(&signed(fixture.signature(&new))).unwrap();
    let trust = audit(&fixture.folder).pop().unwrap()["trust"].as_str().unwrap().to_owned();
    assert!(trust.starts_with("key ") && trust.ends_with("public.pem"), "{trust}");
    drop(host);

    let host = fixture.start(false).unwrap();
    assert_eq!(host.services()[0].current().digest, Digest::of(&new));
    // The previous component is trusted as well, although its source has been overwritten.
    std::fs::write(fixture.path("incoming.wasm"), &new).unwrap();
    assert_eq!(host.deployer().roll_back("incoming", "the tests", None).unwrap().digest, built_digest("incoming"));
}

#[test]
fn a_component_signed_with_a_new_key_can_be_gone_back_to() {
    let mut fixture = TrustFixture::with_key();
    drop(fixture.start(false).unwrap());
    fixture.take_new_key();
    let host = fixture.start(false).unwrap();
    let new = variant("incoming", 1);
    let signature = fixture.signature(&new);
    host.deployer().swap(&SwapRequest { signature, ..swap_request("incoming", new) }).unwrap();
    assert_eq!(host.deployer().roll_back("incoming", "the tests", None).unwrap().digest, built_digest("incoming"));
}

#[test]
fn a_build_that_comes_during_a_canary_is_swapped_in_after_it() {
    let fixture = TrustFixture::new();
    let host = fixture.start(true).unwrap();
    let (on_trial, build) = (variant("incoming", 1), variant("incoming", 2));
    let policy = Some(trial(5.0));
    host.deployer().swap(&SwapRequest { canary: policy, ..swap_request("incoming", on_trial) }).unwrap();
    std::fs::write(fixture.path("incoming.wasm"), &build).unwrap();
    // When the watch finds the second build of the other component, it has looked at this one, too.
    for name in [1, 2] {
        let other = variant("probe", name);
        std::fs::write(fixture.path("probe.wasm"), &other).unwrap();
        let serves_other = || host.services().iter().any(|service| service.current().digest == Digest::of(&other));
        wait_until(SOON, "the build of the other component", serves_other);
    }
    assert_eq!(host.services()[0].current().digest, built_digest("incoming"));
    host.deployer().roll_back("incoming", "the tests", None).unwrap();
    wait_until(SOON, "the build after the canary", || host.services()[0].current().digest == Digest::of(&build));
}

#[test]
fn a_watched_source_is_swapped_in_once_it_is_signed() {
    let fixture = TrustFixture::with_key();
    let host = fixture.start(true).unwrap();
    let (new, source) = (variant("incoming", 1), fixture.path("incoming.wasm"));
    std::fs::write(&source, &new).unwrap();
    wait_until(SOON, "a line of the audit log", || !audit(&fixture.folder).is_empty());
    assert_eq!(audit(&fixture.folder)[0]["outcome"], "refused");
    assert_eq!(host.services()[0].current().digest, built_digest("incoming"));
    fixture.sign(&source);
    wait_until(SOON, "the component that is signed now", || host.services()[0].current().digest == Digest::of(&new));
}

#[test]
fn a_swap_request_has_its_signature_in_a_header() {
    let fixture = TrustFixture::with_key();
    let new = variant("incoming", 1);
    let signature = fixture.signature(&new).unwrap().to_string();
    let host = fixture.start(false).unwrap();
    let mut server = Server { host, folder: fixture.folder };
    let access = server.administer();
    let agent = agent();
    let put = |signature: &str| {
        let request = agent.put(format!("{}/components/incoming", access.url));
        let request = request.header("authorization", format!("Bearer {}", access.token));
        let mut response = request.header("x-hexad-signature", signature).send(&new[..]).unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    };
    let (status, body) = put("AAAA");
    assert!(status == 400 && body.contains("x-hexad-signature"), "{status} {body}");
    let (status, body) = put(&"A".repeat(86).chars().chain("==".chars()).collect::<String>());
    assert!(status == 403 && body.contains("trusted key"), "{status} {body}");
    assert_eq!(put(&signature).0, 200);
    assert_eq!(digest(&server, "incoming"), Digest::of(&new));
}

//! Only what the operator trusts is served. openssl signs, so that keys and signatures are as
//! others make them.

use std::path::{Path, PathBuf};
use std::process::Command;

use hexad::deploy::{DeployError, Policy, Signature, SwapRequest};
use hexad::{Digest, Host, Options, StartError};
use tempfile::TempDir;

use crate::fixture::{self, Server, guest, manifest, store};
use crate::versions::{audit, digest, incoming, order, swap, variant};

/// A folder with the sources of a manifest, a list of trusted digests and a trusted key.
struct Place {
    folder: TempDir,
    policy: Policy,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["probe", "incoming"] {
            std::fs::copy(guest(name), folder.path().join(format!("{name}.wasm"))).unwrap();
        }
        Self { folder, policy: Policy::default() }
    }

    /// With a list that has these digests.
    fn listing(digests: &[Digest]) -> Self {
        let mut place = Self::new();
        place.policy.digests = Some(place.path("digests"));
        place.list(digests);
        place
    }

    /// With the key of a pair, and the sources signed by it.
    fn signing() -> Self {
        let mut place = Self::new();
        let (pair, public) = (place.path("pair.pem"), place.path("public.pem"));
        openssl(&[&"genpkey", &"-algorithm", &"ed25519", &"-out", &pair]);
        openssl(&[&"pkey", &"-in", &pair, &"-pubout", &"-out", &public]);
        place.policy.keys = vec![public];
        for source in ["probe.wasm", "incoming.wasm"] {
            place.sign(&place.path(source));
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn list(&self, digests: &[Digest]) {
        let lines: Vec<_> = digests.iter().map(|digest| format!("{digest}\n")).collect();
        std::fs::write(self.path("digests"), lines.concat()).unwrap();
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
        let options = Options { policy: self.policy.clone(), watch, ..fixture::options(&self.folder, store()) };
        fixture::start_with(&self.folder, &text, &[], &options)
    }
}

fn openssl(arguments: &[&dyn AsRef<std::ffi::OsStr>]) {
    let output = Command::new("openssl").args(arguments.iter().map(AsRef::as_ref)).output();
    let output = output.expect("openssl is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn built(name: &str) -> Digest {
    Digest::of(&std::fs::read(guest(name)).unwrap())
}

#[tokio::test]
async fn what_is_not_listed_does_not_get_in_and_changes_nothing() {
    let place = Place::listing(&[built("probe"), built("incoming")]);
    let host = place.start(false).unwrap();
    let server = Server { host, folder: place.folder };
    let new = variant("incoming", 1);
    let refusal = swap(&server, "incoming", new.clone()).unwrap_err();
    assert!(matches!(refusal, DeployError::Untrusted { .. }), "{refusal}");
    let expected = format!("its digest {} is not listed", Digest::of(&new));
    assert!(refusal.to_string().contains(&expected), "{refusal}");
    assert_eq!(digest(&server, "incoming"), built("incoming"));
    assert_eq!(incoming(&server).await.0, 200);
    let line = audit(&server.folder).pop().unwrap();
    assert_eq!((&line["outcome"], &line["digest"]), (&"refused".into(), &Digest::of(&new).to_string().into()));
    assert!(line["reason"].as_str().unwrap().contains(&expected));

    // The list counts as it is at that moment, in both directions.
    let list = |digests: &[Digest]| {
        let lines: Vec<_> = digests.iter().map(|digest| format!("{digest}\n")).collect();
        std::fs::write(server.folder.path().join("digests"), lines.concat()).unwrap();
    };
    list(&[built("probe"), Digest::of(&new)]);
    swap(&server, "incoming", new.clone()).unwrap();
    assert_eq!(audit(&server.folder).pop().unwrap()["trust"], "digest");
    let refusal = server.host.deployer().roll_back("incoming", "the tests").unwrap_err();
    assert!(matches!(refusal, DeployError::Untrusted { .. }), "{refusal}");
    assert_eq!(digest(&server, "incoming"), Digest::of(&new));
    list(&[built("probe"), built("incoming")]);
    server.host.deployer().roll_back("incoming", "the tests").unwrap();
    assert_eq!(digest(&server, "incoming"), built("incoming"));
}

#[test]
fn a_start_asks_for_trust_too() {
    let place = Place::listing(&[built("probe")]);
    let error = place.start(false).err().unwrap().to_string();
    assert!(error.contains("`incoming`") && error.contains("incoming.wasm") && error.contains("not listed"), "{error}");
    let line = audit(&place.folder).pop().unwrap();
    assert_eq!((&line["action"], &line["outcome"]), (&"start".into(), &"refused".into()));

    // What was swapped in and is no longer trusted is not served after a restart either.
    let new = variant("incoming", 1);
    place.list(&[built("probe"), built("incoming"), Digest::of(&new)]);
    let host = place.start(false).unwrap();
    host.deployer().swap(&order("incoming", new.clone())).unwrap();
    drop(host);
    place.list(&[built("probe"), built("incoming")]);
    let error = place.start(false).err().unwrap().to_string();
    assert!(error.contains(&Digest::of(&new).to_string()), "{error}");
    place.list(&[built("probe"), Digest::of(&new)]);
    assert_eq!(place.start(false).unwrap().slots()[0].current().digest, Digest::of(&new));
}

#[test]
fn a_policy_that_cannot_be_read_stops_the_start() {
    let mut place = Place::new();
    place.policy.keys = vec![place.path("spin.toml")];
    let error = place.start(false).err().unwrap().to_string();
    assert!(error.contains("spin.toml") && error.contains("Ed25519"), "{error}");
}

#[test]
fn what_openssl_signed_gets_in_and_is_still_trusted_after_a_restart() {
    let place = Place::signing();
    let host = place.start(false).unwrap();
    let (new, other) = (variant("incoming", 1), variant("incoming", 2));
    let signed = |signature| SwapRequest { signature, ..order("incoming", new.clone()) };
    for signature in [None, place.signature(&other)] {
        let refusal = host.deployer().swap(&signed(signature)).unwrap_err();
        assert!(matches!(refusal, DeployError::Untrusted { .. }), "{refusal}");
    }
    host.deployer().swap(&signed(place.signature(&new))).unwrap();
    let trust = audit(&place.folder).pop().unwrap()["trust"].as_str().unwrap().to_owned();
    assert!(trust.starts_with("key ") && trust.ends_with("public.pem"), "{trust}");
    drop(host);

    let host = place.start(false).unwrap();
    assert_eq!(host.slots()[0].current().digest, Digest::of(&new));
    // And so is what served before, whose source is overwritten by now.
    std::fs::write(place.path("incoming.wasm"), &new).unwrap();
    assert_eq!(host.deployer().roll_back("incoming", "the tests").unwrap().digest, built("incoming"));
}

#[test]
fn a_build_that_is_watched_gets_in_when_its_signature_is_there() {
    let place = Place::signing();
    let host = place.start(true).unwrap();
    let (new, source) = (variant("incoming", 1), place.path("incoming.wasm"));
    std::fs::write(&source, &new).unwrap();
    while audit(&place.folder).is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(audit(&place.folder)[0]["outcome"], "refused");
    assert_eq!(host.slots()[0].current().digest, built("incoming"));
    place.sign(&source);
    while host.slots()[0].current().digest != Digest::of(&new) {
        std::thread::yield_now();
    }
}

#[test]
fn the_signature_comes_in_a_header() {
    let place = Place::signing();
    let new = variant("incoming", 1);
    let signature = place.signature(&new).unwrap().to_string();
    let host = place.start(false).unwrap();
    let mut server = Server { host, folder: place.folder };
    let access = server.host.administer("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
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

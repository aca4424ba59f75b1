//! Hosts whose components write what those of another host cannot read.

use super::*;

/// The probe that reads formats up to the first number and writes the second.
fn probe(reads: u32, writes: u32) -> Vec<u8> {
    const TEXT: &str = "area probe reads 1 writes 1";
    let mut wasm = std::fs::read(root().join("dist/fixtures/probe.wasm")).expect("`make fixtures`");
    let place = wasm.windows(TEXT.len()).position(|bytes| bytes == TEXT.as_bytes()).expect("the text");
    wasm[place..place + TEXT.len()].copy_from_slice(format!("area probe reads {reads} writes {writes}").as_bytes());
    wasm
}

/// A manifest that serves a probe.
fn manifest_of(folder: &Path, wasm: &[u8]) -> PathBuf {
    let (path, source) = (folder.join("spin.toml"), folder.join("probe.wasm"));
    std::fs::write(&source, wasm).expect("a file");
    let text = format!(
        "spin_manifest_version = 2\napplication = {{ name = \"test\" }}\n[variables]\ncheck = {{ default = \"\" }}\n\
         [[trigger.http]]\nroute = \"/probe/...\"\ncomponent = \"probe\"\n[component.probe]\nsource = {source:?}\n\
         key_value_stores = [\"default\"]\nallowed_outbound_hosts = []\nvariables = {{ check = \"{{{{ check }}}}\" }}\n"
    );
    std::fs::write(&path, text).expect("a file");
    path
}

impl Fleet {
    fn host_of_probe(&self, wasm: &[u8]) -> Member {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = self.host_of(&manifest_of(folder.path(), wasm), folder.path(), &[]);
        Member { server, folder }
    }

    /// The error of a host that does not start with this probe.
    fn refusal_of_probe(&self, wasm: &[u8]) -> String {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = up(&manifest_of(folder.path(), wasm), &folder.path().join("data"));
        command.args(["--store", &self.url, "--threads", "1"]);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

#[test]
fn a_host_does_not_start_with_a_component_whose_records_another_host_cannot_read() {
    let Some(fleet) = Fleet::start() else { return };
    let first = fleet.host_of_probe(&probe(1, 1));
    let refused = fleet.refusal_of_probe(&probe(2, 2));
    let reason = "component `probe`: it writes format 2 below `probe/`, and `probe` on the host ";
    assert!(refused.contains(reason) && refused.contains("run `hexad swap probe` there"), "{refused}");
    assert_eq!(first.operator().swap("probe", &probe(2, 2)).status, 200);
    let second = fleet.host_of_probe(&probe(2, 2));
    let digests = [&first, &second].map(|host| host.operator().get("/components").json()[0]["digest"].clone());
    assert_eq!(digests[0], digests[1]);
}

/// Such a build reads what is stored already.
#[test]
fn a_host_does_not_start_with_a_new_format_beside_a_host_of_an_earlier_build() {
    let Some(fleet) = Fleet::start() else { return };
    let first = fleet.host_of_probe(&probe(2, 1));
    let report = r#"{"version": "0.1.0", "name": "earlier"}"#;
    let row = format!("insert into hexad.host values ('earlier', now() + interval '1 hour', '{report}');");
    fleet.database.sql_in("fleet", &row);
    let refused = fleet.refusal_of_probe(&probe(2, 2));
    assert!(refused.contains("and the host earlier, of an earlier build, does not read that"), "{refused}");
    fleet.host_of_probe(&probe(2, 1)).stop();
    let agent = http::agent();
    let set =
        agent.get(format!("{}/probe/kv/set?key=probe/v2/a&value=1", first.server.url)).call().and_then(http::read);
    assert_eq!(set.expect("an answer").status, 200);
    fleet.host_of_probe(&probe(2, 2)).stop();
}

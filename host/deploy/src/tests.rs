//! Deployments in a host with one small component. `make test POSTGRES=no` leaves out the tests of several hosts.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hexad_engine::Engine;
use hexad_imports::outbound::OutboundOptions;
use hexad_limits::anonymous_work::WorkLimits;
use hexad_limits::instance_permit::{STALLED_INSTANCES, StalledPermits};
use hexad_limits::memory_budget::{MemoryBudget, MemoryDivision};
use hexad_manifest::Manifest;
use hexad_runtime::component::{CanaryPolicy, ComponentService};
use hexad_runtime::engine::Runtime;
use hexad_store_postgres::PostgresOptions;
use hexad_store_sqlite::SqliteOptions;
use hexad_support::digest::Digest;
use hexad_support::serving_threads::ServingThreads;
use hexad_testing::wait::{SOON, within};
use tempfile::TempDir;

use super::audit::{Action, Audit};
use super::change::{Change, Next};
use super::fleet_change::FleetChange;
use super::stop_phase::StopPhase;
use super::*;
use crate::fleet_hosts;

static RUNTIME: LazyLock<Arc<Runtime>> = LazyLock::new(|| Runtime::new(None).unwrap());

const AUDIT: &str = "data/audit.ndjson";

/// A component that traps at every request, with a custom section so that only its digest differs.
fn version(mark: u8) -> Vec<u8> {
    let mut wasm = wat::parse_str(
        r#"(component
            (import "wasi:http/types@0.2.0" (instance $types
                (export "incoming-request" (type (sub resource)))
                (export "response-outparam" (type (sub resource)))))
            (alias export $types "incoming-request" (type $request))
            (alias export $types "response-outparam" (type $out))
            (core module $m (func (export "handle") (param i32 i32) unreachable))
            (core instance $i (instantiate $m))
            (type $handle (func (param "request" (own $request)) (param "response-out" (own $out))))
            (func $f (type $handle) (canon lift (core func $i "handle")))
            (instance $handler (export "handle" (func $f)))
            (export "wasi:http/incoming-handler@0.2.0" (instance $handler)))"#,
    )
    .unwrap();
    // A custom section: its id, its length, the length of its name, its name, its content.
    wasm.extend([0, 6, 4, b'm', b'a', b'r', b'k', mark]);
    wasm
}

fn digest(mark: u8) -> Digest {
    Digest::of(&version(mark))
}

/// The components of a host, without the shards that would serve them.
struct Host {
    serving: Serving,
    _store: Engine,
}

impl Host {
    fn deployer(&self) -> &Arc<Deployer> {
        self.serving.deployer()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.deployer().stop();
        self.deployer().close();
        self.serving.end();
    }
}

/// A host that serves version 0, unless another one was swapped in.
fn start(folder: &Path, postgres: Option<PostgresOptions>) -> Host {
    let (source, path) = (folder.join("a.wasm"), folder.join("spin.toml"));
    std::fs::write(&source, version(0)).unwrap();
    let manifest = format!(
        "spin_manifest_version = 2\napplication = {{ name = \"test\" }}\n[[trigger.http]]\nroute = \"/...\"\n\
         component = \"a\"\n[component.a]\nsource = {source:?}\n"
    );
    std::fs::write(&path, manifest).unwrap();
    let data = folder.join("data");
    let store = Engine::open(&data, 1, &SqliteOptions::default(), postgres.as_ref()).unwrap();
    let division = MemoryDivision::new(None, 0, 0);
    let environment = Environment {
        runtime: RUNTIME.clone(),
        memory: MemoryBudget::new(division.guests()),
        division,
        stalled: StalledPermits::new(STALLED_INSTANCES),
        tracer: None,
        threads: ServingThreads::default(),
    };
    let options = DeployOptions {
        data,
        shards: 1,
        outbound: OutboundOptions::default(),
        anonymous_work: WorkLimits::default(),
        policy: TrustPolicy::default(),
        watch: false,
        is_temporary: false,
        rotate_secrets: false,
    };
    let Manifest { path, components, routes, .. } = Manifest::load(&path, &|_| None, None).unwrap();
    let serving = Serving::start(environment, (path, components, routes), &store, &options).unwrap();
    Host { serving, _store: store }
}

fn start_alone() -> (Host, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (start(folder.path(), None), folder)
}

fn swap(host: &Host, mark: u8, canary: Option<CanaryPolicy>) -> Result<DeployReport, DeployError> {
    let (component, wasm, by) = ("a".to_owned(), version(mark).into(), "mia".to_owned());
    host.deployer().swap(&SwapRequest {
        component,
        wasm,
        signature: None,
        by,
        canary,
        without: Vec::new(),
        expected: None,
    })
}

/// A canary whose trial does not end during the test.
fn begin_trial(host: &Host, mark: u8) {
    let window = Duration::from_secs(3600);
    swap(host, mark, Some(CanaryPolicy { window, ..CanaryPolicy::default() })).unwrap();
}

fn service(host: &Host) -> &ComponentService {
    &host.serving.application().services()[0]
}

/// The lines of the audit log: action and outcome.
fn audit(folder: &TempDir) -> Vec<String> {
    let text = std::fs::read_to_string(folder.path().join(AUDIT)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<audit::AuditRecord>(line).unwrap());
    lines.map(|line| format!("{} {}", line.action, line.outcome)).collect()
}

#[test]
fn a_rollback_whose_line_cannot_be_written_leaves_a_canary_that_is_judged() {
    let (host, folder) = start_alone();
    begin_trial(&host, 1);
    host.deployer().state().files.audit = Audit::open_read_only(&folder.path().join(AUDIT)).unwrap();
    let refused = host.deployer().roll_back("a", "mia", None).unwrap_err();
    assert!(matches!(&refused, DeployError::Io { .. }) && refused.changed_nothing(), "{refused}");
    let canary = service(&host).deployment().canary.clone().expect("it is still on trial");
    assert!(canary.conclude(), "nobody has acted on its verdict");
}

#[test]
fn a_canary_without_requests_stays_on_trial_and_warns_once() {
    let (host, _folder) = start_alone();
    swap(&host, 1, Some(CanaryPolicy { window: Duration::ZERO, ..CanaryPolicy::default() })).unwrap();
    let canary = service(&host).deployment().canary.clone().expect("it is on trial");
    // Either the supervisor takes the shortage, or this test does.
    assert!(matches!(canary.take_shortage(), None | Some(10)));
    assert_eq!((canary.take_shortage(), canary.missing_responses()), (None, 10));
    host.deployer().end_trials();
    assert!(service(&host).deployment().canary.is_some());

    host.deployer().roll_back("a", "mia", None).unwrap();
    begin_trial(&host, 2);
    let canary = service(&host).deployment().canary.clone().unwrap();
    assert_eq!((canary.take_shortage(), canary.missing_responses()), (None, 10), "its window is not over");
}

#[test]
fn a_promotion_that_fails_says_that_the_trial_was_ended() {
    let (host, folder) = start_alone();
    begin_trial(&host, 1);
    host.deployer().state().files.audit = Audit::open_read_only(&folder.path().join(AUDIT)).unwrap();
    let failed = host.deployer().promote("a", "mia", None).unwrap_err();
    assert!(matches!(&failed, DeployError::TrialEnded { .. }) && !failed.changed_nothing(), "{failed}");
    let deployment = service(&host).deployment();
    assert!(deployment.canary.is_none() && deployment.current.digest == digest(0));
    drop((deployment, host));
    assert_eq!(service(&start(folder.path(), None)).current().digest, digest(0));
    assert_eq!(audit(&folder), ["canary done", "rollback done"], "the restart has ended the trial");
}

#[test]
fn a_change_that_cannot_be_recorded_is_not_logged_as_done() {
    let (host, folder) = start_alone();
    swap(&host, 1, None).unwrap();
    let (record, aside) = (folder.path().join("data/components/active.json"), folder.path().join("aside"));
    std::fs::rename(&record, &aside).unwrap();
    // A file cannot replace a folder.
    std::fs::create_dir(&record).unwrap();
    for failed in [swap(&host, 2, None), host.deployer().roll_back("a", "mia", None)] {
        assert!(matches!(&failed, Err(DeployError::Io { subject: "the serving record", .. })), "{failed:?}");
    }
    assert_eq!(service(&host).current().digest, digest(1));
    assert_eq!(audit(&folder), ["swap done", "swap refused", "rollback refused"]);
    std::fs::remove_dir(&record).unwrap();
    std::fs::rename(&aside, &record).unwrap();
    host.deployer().roll_back("a", "mia", None).unwrap();
    assert_eq!(audit(&folder)[3..], ["rollback done"]);
}

#[test]
fn a_change_whose_line_only_the_record_has_is_logged_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = start(folder.path(), None);
    swap(&host, 1, None).unwrap();
    let line = || files::completed("mia", Action::Rollback, "a", digest(0), Some(digest(1))).to_json();
    let (first, second) = (line(), line());
    let expected = ["swap done", "rollback done", "rollback done", "swap done"];
    // When the host starts for the second time, the log has the first line already.
    for (line, swaps_next, count) in [(&first, false, 2), (&first, false, 2), (&second, true, 4)] {
        // As after a crash, or after the disk became full.
        let entry = record::RecordEntry { digest: digest(0), previous: Some(digest(1)), source: None };
        host.deployer().state().files.records.set_with_line("a", entry, line.clone()).unwrap();
        if swaps_next {
            swap(&host, 1, None).unwrap();
        } else {
            drop(host);
            host = start(folder.path(), None);
            assert_eq!(service(&host).current().digest, digest(0));
        }
        assert_eq!(audit(&folder), expected[..count]);
        let record = std::fs::read_to_string(folder.path().join("data/components/active.json")).unwrap();
        assert!(!record.contains("unlogged"), "its form is as of before: {record}");
    }
}

#[test]
fn a_rollback_that_loads_undoes_no_change_that_was_made_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let host = start(folder.path(), None);
    swap(&host, 1, None).unwrap();
    swap(&host, 2, None).unwrap();
    drop(host);
    // A rollback loads the version before, and reads it from this pipe.
    let host = start(folder.path(), None);
    let path = folder.path().join(format!("data/components/{}.wasm", digest(1)));
    std::fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let other = host.deployer().load(service(&host), version(3).into(), "another", StopPhase::Stopping).unwrap();
    std::thread::scope(|scope| {
        let rolling_back = scope.spawn(|| host.deployer().roll_back("a", "mia", None));
        // Opening the pipe waits for a reader.
        let open = move || std::fs::File::options().write(true).open(&path).unwrap();
        let mut pipe = within(SOON, "the rollback to read the component", open);
        let compiling = host.deployer().lock_compiling();
        pipe.write_all(&version(1)).unwrap();
        drop(pipe);
        // The rollback holds the state until it waits for the compiler.
        let state = host.deployer().state();
        service(&host).replace(other);
        drop((state, compiling));
        let refused = rolling_back.join().unwrap().unwrap_err();
        assert!(matches!(&refused, DeployError::Changed(id) if id == "a"), "{refused}");
    });
    assert_eq!(service(&host).current().digest, digest(3));
}

#[test]
fn a_missing_or_damaged_component_is_not_restored_and_is_named() {
    let (host, folder) = start_alone();
    swap(&host, 1, None).unwrap();
    swap(&host, 2, None).unwrap();
    let path = |mark: u8| folder.path().join(format!("data/components/{}.wasm", digest(mark)));
    let name = path(1).display().to_string();
    for damage in [std::fs::remove_file(path(1)), std::fs::write(path(1), "other")] {
        damage.unwrap();
        let refused = host.deployer().roll_back("a", "mia", None).unwrap_err();
        assert!(refused.to_string().contains(&name) && refused.changed_nothing(), "{refused}");
        assert_eq!(service(&host).current().digest, digest(2));
    }
    assert_eq!(audit(&folder)[2..], ["rollback refused", "rollback refused"]);
    std::fs::write(path(1), version(1)).unwrap();
    host.deployer().roll_back("a", "mia", None).unwrap();

    std::fs::remove_file(path(1)).unwrap();
    let error = read_deployed(&folder.path().join("data")).unwrap_err().to_string();
    assert!(error.contains(&name), "{error}");
}

#[test]
fn the_manifests_source_is_kept_anew_for_a_restart() {
    let (host, folder) = start_alone();
    swap(&host, 1, None).unwrap();
    let path = folder.path().join(format!("data/components/{}.wasm", digest(0)));
    std::fs::remove_file(&path).unwrap();
    host.deployer().roll_back("a", "mia", None).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), version(0));
}

#[test]
fn a_recorded_change_that_serves_late_is_not_logged_as_refused() {
    let (host, folder) = start_alone();
    swap(&host, 1, None).unwrap();
    let late = Err(DeployError::NotServedYet("it takes too long".to_owned()));
    host.deployer().log_refusal(&late, "mia", Action::Swap, "a", Some(digest(1)));
    assert_eq!(audit(&folder), ["swap done"]);
}

#[test]
fn a_fleet_change_is_refused_if_its_expected_state_has_changed() {
    let Some(server) = fleet_hosts::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = start(folder.path(), Some(fleet_hosts::options(&server.new_database("fleet"))));
    let deployer = host.deployer();
    let fleet = deployer.fleet.as_ref().unwrap();
    swap(&host, 1, None).unwrap();
    let seen = Expected { current: digest(1), canary: None };

    // Another host completes a swap after this one has read the record, and before it records its pending change.
    let (settings, revision) = deployer.prepare(service(&host), &digest(0)).unwrap();
    deployer.prepared.keep("a", settings, revision);
    fleet.publish(&digest(2), version(2), None).unwrap();
    let record_version = fleet.update(|record| {
        let entry = record.components.get_mut("a").unwrap();
        (entry.previous, entry.digest) = (Some(entry.digest), digest(2));
        Ok(Vec::new())
    });
    let (action, next, expected) = (Action::Rollback, Next::Active(digest(0)), Some(&seen));
    let change = &Change { by: "mia", action, next, trust: None, reason: None, expected };
    let change = FleetChange { change, without: &[], sent: None };
    let Err(refused) = deployer.deploy_to_fleet(fleet, service(&host), digest(0), &change) else { panic!("deployed") };
    assert!(matches!(refused, DeployError::Changed(_)), "{refused}");
    let (_, record) = fleet.read().unwrap();
    assert!(record.components["a"].digest == digest(2) && record.proposal.is_none());

    // The same happens to an operator whose page is as old.
    let end = std::time::Instant::now() + SOON;
    fleet.wait_until_applied(record_version.unwrap(), end).unwrap();
    let refused = deployer.roll_back("a", "mia", Some(&seen)).unwrap_err();
    assert!(matches!(refused, DeployError::Changed(_)), "{refused}");
    begin_trial(&host, 3);
    let other_canary = Expected { current: digest(2), canary: Some(digest(1)) };
    for seen in [Expected { current: digest(2), canary: None }, other_canary] {
        for refused in [deployer.promote("a", "mia", Some(&seen)), deployer.roll_back("a", "mia", Some(&seen))] {
            assert!(matches!(refused, Err(DeployError::Changed(_))), "{refused:?}");
        }
    }
    let seen = Expected { current: digest(2), canary: Some(digest(3)) };
    deployer.promote("a", "mia", Some(&seen)).unwrap();
    assert_eq!(service(&host).current().digest, digest(3));
    let seen = Expected { current: digest(3), canary: None };
    assert_eq!(deployer.roll_back("a", "mia", Some(&seen)).unwrap().digest, digest(2));
}

//! Deployments while the store is down, or takes no writes.

use super::*;
use crate::host::probe::write_manifest;

#[test]
fn a_store_that_is_away_while_a_component_is_prepared_is_no_reason_to_refuse_it() {
    let Some(mut fleet) = Fleet::start() else { return };
    let list = List::new();
    list.set(&[0, 1]);
    let (first, second) = (fleet.host(&[]), fleet.host(&["--allow-digests", list.path().to_str().expect("UTF-8")]));
    list.set_pipe();
    std::thread::scope(|scope| {
        let swap = scope.spawn(|| first.operator().swap("hello", &version(1)));
        let mut pipe = open_read(&list.path());
        list.set(&[0, 1]);
        fleet.database.kill();
        // Longer than a request waits for a server.
        wait::pause(Duration::from_secs(2));
        fleet.database.resume();
        pipe.write_all(digests(&[0, 1]).as_bytes()).expect("written");
        drop(pipe);
        swap.join().expect("a swap").expect(200);
    });
    assert_eq!([first.serves(), second.serves()], [1; 2]);
}

/// A component's check reads the store.
#[test]
fn a_component_that_cannot_be_checked_while_the_store_is_away_is_not_called_unusable() {
    let Some(mut fleet) = Fleet::start() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = fleet.host_of(&root().join("spin.toml"), folder.path(), &[]);
    let wasm = variant("experiments", 1);
    fleet.database.kill();
    Operator::of(&server).swap("experiments", &wasm).expect(503);
    fleet.database.resume();
    wait_for_ok(SOON, "a store that is back", || {
        let swapped = Operator::of(&server).swap("experiments", &wasm);
        let text = format!("{}: {}", swapped.status, swapped.text());
        assert!(matches!(swapped.status, 200 | 503), "{text}");
        if swapped.status == 200 { Ok(()) } else { Err(text) }
    });
}

#[test]
fn a_host_that_cannot_fetch_a_component_for_a_while_does_not_refuse_it() {
    let Some(fleet) = Fleet::start() else { return };
    let (first, second) = (fleet.host(&[]), fleet.host(&[]));
    // Existing connections stay.
    fleet.database.set_rules("local all all trust\nhost all all all reject\n");
    std::thread::scope(|scope| {
        let swap = scope.spawn(|| first.operator().swap("hello", &version(1)));
        // Long enough for several attempts.
        wait::pause(Duration::from_secs(4));
        assert!(!swap.is_finished(), "it was refused");
        fleet.database.set_rules("local all all trust\nhost all all all trust\n");
        swap.join().expect("a swap").expect(200);
    });
    assert_eq!([first.serves(), second.serves()], [1; 2]);
}

#[test]
fn hosts_stay_ready_and_report_beside_a_proposal_of_a_killed_host_while_no_write_succeeds() {
    let Some(fleet) = Fleet::start() else { return };
    let (_list, [restarted, other]) = fleet.hosts_after_a_killed_deployment();
    let standby = fleet.database.start_standby();
    standby.signal_all("STOP");
    let began = Instant::now();
    // A report counts for ten seconds, also the report of the killed process.
    let reports = "select count(*) from hexad.host where seen > now() - interval '9 seconds';";
    while began.elapsed() < Duration::from_secs(20) {
        assert_eq!([restarted.serves(), other.serves()], [0; 2]);
        assert_eq!([&restarted, &other].map(|host| host.operator().get("/readyz").status), [200; 2]);
        if began.elapsed() > Duration::from_secs(10) {
            assert_eq!(fleet.database.sql_in("fleet", reports).trim(), "2");
        }
    }
    standby.signal_all("CONT");
    other.operator().swap("hello", &version(1)).expect(200);
    assert_eq!([restarted.serves(), other.serves()], [1; 2]);
}

#[test]
fn hosts_stay_ready_while_a_canary_that_failed_cannot_be_ended_and_end_it_afterwards() {
    let Some(fleet) = Fleet::start() else { return };
    let hosts = [(); 2].map(|()| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = write_manifest(folder.path());
        edit(&path, |text| text + "[component.probe.tool.hexad]\nmax_response = \"1MiB\"\n");
        Member { server: fleet.host_of(&path, folder.path(), &[]), folder }
    });
    let wasm = variant("fixtures/probe", 1);
    hosts[0].operator().swap("probe?percent=100&window=1h", &wasm).expect(200);
    let standby = fleet.database.start_standby();
    standby.signal_all("STOP");
    // The bodies of these responses break, so the canary fails after some of them.
    for _ in 0..20 {
        let flood = http::agent().get(format!("{}/probe/flood?mib=2", hosts[0].server.url)).call();
        drop(flood.and_then(http::read));
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(15) {
        for host in &hosts {
            host.operator().get("/readyz").expect(200);
        }
    }
    standby.signal_all("CONT");
    for host in &hosts {
        wait_for_ok(SOON, "the end of the trial", || {
            let components = host.operator().get("/components").json();
            if components[0]["canary"].is_null() { Ok(()) } else { Err(components) }
        });
        let audit = std::fs::read_to_string(host.server.data.join("audit.ndjson")).expect("the audit log");
        let last = audit.lines().last().expect("a line");
        assert!(last.contains("rollback") && last.contains("of its 10 answers failed"), "{last}");
    }
}

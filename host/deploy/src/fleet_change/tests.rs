//! On a real server. `make test POSTGRES=no` leaves these tests out.

use std::path::Path;

use hexad_testing::wait::{SOON, pause};

use super::*;
use crate::fleet::PendingChange;
use crate::fleet_hosts::{Host, Server, start};

/// Two hosts with one name, as on a machine and its clone.
struct Clones {
    fleets: [Fleet; 2],
    _hosts: [Host; 2],
    server: Server,
}

impl Clones {
    fn start() -> Option<Self> {
        let server = start()?;
        let url = server.new_database("fleet");
        let hosts = [(); 2].map(|()| Host::open(&url));
        let fleets = hosts
            .each_ref()
            .map(|host| Fleet::new(host.store.fleet(), Path::new("/data"), Path::new("/spin.toml")).unwrap());
        Some(Self { fleets, _hosts: hosts, server })
    }
}

fn propose(fleet: &Fleet, id: &str) {
    let (host, component, digest) = (fleet.instance.clone(), "hello".to_owned(), Digest::of(b"new"));
    let proposal = PendingChange { id: id.to_owned(), host, component, digest };
    let proposed = fleet.update(|record| {
        record.proposal = Some(proposal.clone());
        Ok(Vec::new())
    });
    proposed.unwrap();
}

fn answer(fleet: &Fleet, id: &str, refusal: Option<&str>) {
    fleet.set_report(|report| {
        report.proposal = Some(id.to_owned());
        report.refusal = refusal.map(str::to_owned);
    });
    fleet.exchange_reports().unwrap();
}

#[test]
fn a_host_that_stops_waits_for_no_other() {
    let Some(clones) = Clones::start() else { return };
    let [first, second] = &clones.fleets;
    first.exchange_reports().unwrap();
    second.exchange_reports().unwrap();
    propose(first, "1");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_until_prepared(first, "1", &[]));
        first.phases.enter(StopPhase::Stopping);
        assert!(matches!(waiting.join().unwrap(), Err(DeployError::Stopping)));
    });
    assert!(DeployError::Stopping.is_passing(), "a host that stops refuses no proposal of another");
}

#[test]
fn of_two_hosts_of_one_name_each_is_waited_for() {
    let Some(clones) = Clones::start() else { return };
    let [first, second] = &clones.fleets;
    assert_eq!(first.name, second.name);
    first.exchange_reports().unwrap();
    assert_eq!(second.exchange_reports().unwrap().len(), 2);
    propose(first, "1");
    answer(first, "1", None);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_until_prepared(first, "1", &[]));
        pause(4 * LOOK);
        assert!(!waiting.is_finished(), "the other one has not prepared it");
        answer(second, "1", None);
        waiting.join().unwrap().unwrap();
    });
    answer(first, "1", None);
    answer(second, "1", Some("no trust"));
    let error = wait_until_prepared(first, "1", &[]).unwrap_err().to_string();
    assert!(error.contains("no trust"), "{error}");
    // The change can leave out the second host, by its name or its instance.
    for without in [&second.name, &second.instance] {
        let without = std::slice::from_ref(without);
        first.check_known(without, &first.read_hosts().unwrap()).unwrap();
        wait_until_prepared(first, "1", without).unwrap();
    }
    let error = wait_until_prepared(first, "1", &["another".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("no trust"), "{error}");
    for (without, part) in [("another", "no host `another`"), (&*first.instance, "itself")] {
        let error = first.check_known(&[without.to_owned()], &first.read_hosts().unwrap()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    // One host stops, and the other one continues.
    second.store.leave(&second.instance).unwrap();
    let left: Vec<String> = first.read_hosts().unwrap().into_iter().map(|host| host.instance).collect();
    assert_eq!(left, std::slice::from_ref(&first.instance));
}

#[test]
fn a_host_that_was_left_out_is_not_waited_for_at_the_end_either() {
    let Some(clones) = Clones::start() else { return };
    let [first, second] = &clones.fleets;
    first.exchange_reports().unwrap();
    second.exchange_reports().unwrap();
    propose(first, "1");
    let (record_version, _) = first.read().unwrap();
    first.set_report(|report| report.record_version = record_version);
    std::thread::scope(|scope| {
        let (begins, began) = std::sync::mpsc::channel();
        let waiting = scope.spawn(move || {
            begins.send(()).unwrap();
            finish(first, record_version, &[])
        });
        began.recv_timeout(SOON).unwrap();
        finish(first, record_version, std::slice::from_ref(&second.instance)).unwrap();
        assert!(!waiting.is_finished(), "the other one is waited for if it was not left out");
        second.set_report(|report| report.record_version = record_version);
        second.exchange_reports().unwrap();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_proposal_is_in_the_way_until_its_host_is_gone_or_has_given_it_up() {
    let Some(clones) = Clones::start() else { return };
    let [first, second] = &clones.fleets;
    let check = |fleet: &Fleet| {
        let hosts = fleet.exchange_reports().unwrap();
        fleet.check_no_other_change(&fleet.read().unwrap().1, &hosts)
    };
    first.exchange_reports().unwrap();
    propose(first, "1");
    check(first).unwrap();
    let error = check(second).unwrap_err().to_string();
    assert!(error.contains(&first.name) && error.contains("is deploying"), "{error}");
    let age = |seconds: u32| {
        let name = &first.instance;
        clones.server.sql_in(
            "fleet",
            &format!("update hexad.host set seen = now() - interval '{seconds} seconds' where name = '{name}';"),
        );
    };
    // The first host was killed.
    age(11);
    check(second).unwrap();
    first.exchange_reports().unwrap();
    check(second).unwrap_err();
    // The record has no pending change with this id, so that nothing is withdrawn.
    first.withdraw("2");
    first.exchange_reports().unwrap();
    check(second).unwrap_err();
    first.withdraw("1");
    check(second).unwrap();
    propose(first, "3");
    first.set_report(|report| report.given_up = Some("3".to_owned()));
    first.exchange_reports().unwrap();
    check(second).unwrap();
}

#[test]
fn a_recorded_change_is_done_although_the_store_is_away() {
    let Some(mut clones) = Clones::start() else { return };
    let [fleet, _] = &clones.fleets;
    fleet.set_report(|report| report.record_version = 1);
    clones.server.kill();
    finish(fleet, 1, &[]).unwrap();
}

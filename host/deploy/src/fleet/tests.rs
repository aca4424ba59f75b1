//! Most tests use a real server. `make test POSTGRES=no` leaves those out.

use hexad_testing::proxy::Proxy;
use hexad_testing::wait::{SOON, join, wait_until};

use super::*;
use crate::fleet_hosts::{Host, Server, start};

fn fleet(host: &Host) -> Fleet {
    Fleet::new(host.store.fleet(), Path::new("/data"), Path::new("/spin.toml")).unwrap()
}

fn serve(fleet: &Fleet, component: &str) -> Result<i64, DeployError> {
    fleet.update(|record| {
        let (by, digest) = ("mia".to_owned(), Digest::of(component.as_bytes()));
        let entry = ServingEntry { digest, previous: None, canary: None, by, action: Action::Swap, reason: None };
        record.components.insert(component.to_owned(), entry);
        Ok(vec![component.to_owned()])
    })
}

/// A host behind a proxy changes the record. `meanwhile` runs after the server's commit, while the proxy holds the
/// reply back. The proxy then drops the reply.
async fn change_without_reply(server: &mut Server, meanwhile: impl FnOnce(&mut Server)) -> Result<i64, DeployError> {
    let proxy = Proxy::start(server.port());
    let host = Host::open(&format!("postgres://postgres@127.0.0.1:{}/fleet", proxy.port()));
    let (control, connection) =
        tokio_postgres::connect(&server.url("postgres", "fleet"), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    control.batch_execute("begin; select from hexad.serving for update").await.unwrap();
    let changing = std::thread::spawn(move || serve(&fleet(&host), "first"));
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock';";
    wait_until(SOON, "the change to wait for the record's lock", || server.sql(waiting).trim() != "0");
    proxy.stall(true);
    control.batch_execute("commit").await.unwrap();
    let revision = "select revision from hexad.serving;";
    wait_until(SOON, "the server's commit", || server.sql_in("fleet", revision).trim() != "0");
    meanwhile(server);
    proxy.cut();
    proxy.stall(false);
    tokio::task::spawn_blocking(move || join(changing, "the change without a reply")).await.unwrap()
}

#[tokio::test]
async fn a_change_without_a_reply_is_recognised_after_another_host_has_changed_the_record_again() {
    let Some(mut server) = start() else { return };
    let other = Host::open(&server.new_database("fleet"));
    let changed = change_without_reply(&mut server, |_| assert_eq!(serve(&fleet(&other), "second").unwrap(), 2)).await;
    assert_eq!(changed.unwrap(), 1);
    let (record_version, record) = fleet(&other).read().unwrap();
    let served: Vec<&str> = record.components.keys().map(String::as_str).collect();
    assert_eq!((record_version, served), (2, vec!["first", "second"]));
    let audit = server.sql_in("fleet", "select entry from hexad.audit order by id;");
    assert_eq!(audit.lines().collect::<Vec<_>>(), ["first", "second"], "it took place once");
}

#[tokio::test]
async fn a_change_without_a_reply_whose_store_stays_away_may_have_taken_place() {
    let Some(mut server) = start() else { return };
    drop(Host::open(&server.new_database("fleet")));
    let changed = change_without_reply(&mut server, Server::kill).await;
    assert!(matches!(changed, Err(DeployError::Unconfirmed(_))), "{changed:?}");
}

#[tokio::test]
async fn a_record_replaced_by_an_older_build_leaves_a_change_unconfirmed() {
    let Some(mut server) = start() else { return };
    drop(Host::open(&server.new_database("fleet")));
    let replace = "update hexad.serving set revision = revision + 1, record = '{\"id\": \"other\"}';";
    let changed = change_without_reply(&mut server, |server| drop(server.sql_in("fleet", replace))).await;
    assert!(matches!(changed, Err(DeployError::Unconfirmed(_))), "{changed:?}");
}

#[tokio::test]
async fn a_record_names_its_last_revisions() {
    let Some(server) = start() else { return };
    let host = Host::open(&server.new_database("fleet"));
    let changes = tokio::task::spawn_blocking(move || {
        let fleet = fleet(&host);
        for record_version in 1..=RECENT as i64 + 5 {
            assert_eq!(serve(&fleet, "again").unwrap(), record_version);
        }
        fleet.read().unwrap()
    });
    let (record_version, record) = changes.await.unwrap();
    assert_eq!((record.recent.len(), record.recent.last_key_value()), (RECENT, Some((&record_version, &record.id))));
}

#[tokio::test]
async fn a_deployment_waits_until_this_host_says_that_it_serves_the_revision() {
    let Some(server) = start() else { return };
    let host = Host::open(&server.new_database("fleet"));
    let fleet = fleet(&host);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| fleet.wait_until_applied(2, Instant::now() + SOON));
        for record_version in 1..=2 {
            fleet.set_report(|report| report.record_version = record_version);
        }
        waiting.join().unwrap().unwrap();
    });
    fleet.set_report(|report| report.problem = Some("no trust".to_owned()));
    let error = fleet.wait_until_applied(3, Instant::now()).unwrap_err();
    assert!(matches!(&error, DeployError::NotServedYet(reason) if reason == "no trust"), "{error}");
}

#[test]
fn a_report_of_before_is_known_by_its_key_and_a_process_that_is_gone_is_left_out_after_a_restart() {
    let host = |instance: &str, name: Option<&str>, seconds| {
        let report = name.map_or_else(String::new, |name| format!(r#","name":"{name}""#));
        let report = format!(r#"{{"version":"1"{report}}}"#);
        FleetHost::from(HostRow { instance: instance.to_owned(), age: Duration::from_secs(seconds), report })
    };
    let hosts = vec![
        host("web#2", Some("web"), 60),
        host("web#1", Some("web"), 1),
        host("web#3", Some("web"), 2),
        host("old", None, 70),
        host("old", None, 80),
        host("gone#1", Some("gone"), 90),
    ];
    let known = without_earlier_processes(hosts);
    let known: Vec<_> = known.iter().map(|host| (&*host.instance, &*host.name)).collect();
    assert_eq!(known, [("gone#1", "gone"), ("old", "old"), ("web#1", "web"), ("web#3", "web")]);
}

#[test]
fn a_record_of_before_and_one_with_more_are_read() {
    assert_eq!(serde_json::from_str::<ServingRecord>("{}").unwrap(), ServingRecord::default());
    let recent = serde_json::from_str::<ServingRecord>(r#"{"recent":{"7":"00ff"}}"#).unwrap().recent;
    assert_eq!(recent, BTreeMap::from([(7, "00ff".to_owned())]));
    let golden = include_str!("../golden/serving.json");
    let record: ServingRecord = serde_json::from_str(golden).unwrap();
    let entry = &record.components["package-registry"];
    let (digest, previous) = (Digest::of(b"new"), Digest::of(b"old"));
    assert_eq!((entry.digest, entry.previous, &*entry.by), (digest, Some(previous), "mia"));
    let policy = entry.canary.as_ref().unwrap().policy();
    assert_eq!((policy.percent, policy.window), (5.0, Duration::from_secs(60)));
    assert_eq!(record.proposal.as_ref().unwrap().component, "admin");
    assert_eq!(record.digests().len(), 4);
    let again = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<ServingRecord>(&again).unwrap(), record);
}

#[test]
fn a_proposal_counts_while_its_host_reports_and_has_not_given_it_up() {
    let host = |instance: &str, seconds, given_up: Option<&str>| {
        let report = HostReport { given_up: given_up.map(str::to_owned), ..HostReport::default() };
        FleetHost {
            instance: instance.to_owned(),
            name: "web".to_owned(),
            age: Duration::from_secs(seconds),
            read_at: std::time::Instant::now(),
            report,
        }
    };
    let (id, component) = ("7".to_owned(), "admin".to_owned());
    let proposal = PendingChange { id, host: "web#1".to_owned(), component, digest: Digest::of(b"new") };
    assert!(coordinator(&proposal, &[host("web#2", 1, None), host("web#1", 9, Some("6"))]).is_some());
    assert!(coordinator(&proposal, &[host("web#2", 1, None), host("web#1", 10, None)]).is_none(), "it is gone");
    assert!(coordinator(&proposal, &[host("web#2", 1, None)]).is_none(), "another one has its name");
    assert!(coordinator(&proposal, &[host("web#1", 1, Some("7"))]).is_none());
    // An earlier build: the name is the key.
    assert!(
        coordinator(&PendingChange { host: "db:/data".to_owned(), ..proposal }, &[host("db:/data", 1, None)]).is_some()
    );
}

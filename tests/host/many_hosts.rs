//! Several hosts on one PostgreSQL. `make test POSTGRES=no` leaves these out.

use super::*;
use hexad_tests::forge::{ADMIN, PRIVATE};
use hexad_tests::postgres::{self, Own, Postgres};
use hexad_tests::repository::Repository;
use hexad_tests::server;
use hexad_tests::suggestions::{Suggestions, import_repository};
use hexad_tests::wait::{wait_for, wait_for_ok};
use serde_json::json;
use std::collections::BTreeSet;

/// How long a host may take to notice its server's clock and settings. It checks them each minute.
const HOUSEKEEPING: Duration = Duration::from_secs(70);

/// A host on the store at `url`, with these arguments and environment variables.
fn host(url: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Server {
    let data = tempfile::tempdir().expect("a temporary folder");
    let mut command = up(Path::new("spin.toml"), data.path());
    command.env("SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN", BOOTSTRAP_TOKEN).args(["--store", url]);
    command.args(arguments).envs(variables.iter().copied());
    Server::spawn(command, data.path()).with_folder(data)
}

/// Two hosts, and the small forge in their store. `None` if these tests are left out.
fn two_hosts() -> Option<(Postgres, [Server; 2])> {
    two_hosts_with(&[])
}

fn two_hosts_with(variables: &[(&str, &str)]) -> Option<(Postgres, [Server; 2])> {
    if !postgres::is_enabled() {
        return None;
    }
    let database = Postgres::start(&[]);
    let url = database.new_database("forge");
    let hosts = [(); 2].map(|()| host(&url, &[], variables));
    forge::seed(&hosts[0]);
    Some((database, hosts))
}

/// A new token of the developer.
fn minted(host: &Server, name: &str) -> serde_json::Value {
    let fields = json!({"name": name, "scopes": ["api"]}).to_string();
    host.send("POST", "users/3/personal_access_tokens", ADMIN, fields).expect(201).json()
}

#[test]
fn a_host_shows_publications_of_another_host_at_once() {
    let Some((_database, hosts)) = two_hosts() else { return };
    let registries = [0, 1].map(|n| Registry::new(&hosts[n], PUBLIC, DEVELOPER));
    for number in 0..20usize {
        let version = format!("1.0.{number}");
        let tarball = package::tarball("shared", &version, 30_000, number as u64);
        let (publisher, installer) = (&registries[number % 2], &registries[1 - number % 2]);
        assert_eq!(publisher.publish("shared", &version, &tarball).expect("an answer").status, 200);
        // The second time, the answer comes from memory.
        for _ in 0..2 {
            let metadata = installer.get("/shared").expect("an answer").json();
            assert_eq!(metadata["dist-tags"]["latest"], json!(version));
            assert_eq!(metadata["versions"].as_object().expect("versions").len(), number + 1);
        }
        let served = installer.get(&format!("/shared/-/shared-{version}.tgz")).expect("an answer");
        assert!(served.status == 200 && served.body == tarball, "{}", served.status);
        // A client that switches to another host never sees older data.
        assert_eq!(publisher.get("/shared").expect("an answer").json()["dist-tags"]["latest"], json!(version));
    }
}

#[test]
fn a_revoked_token_is_refused_by_every_host_at_once() {
    let Some((_database, hosts)) = two_hosts() else { return };
    let own = |host: &Server, token: &str| host.get("personal_access_tokens/self", token).status;
    for number in 0..10 {
        let (first, second) = (&hosts[number % 2], &hosts[1 - number % 2]);
        let token = minted(first, "short")["token"].as_str().expect("a token").to_owned();
        // Both hosts now have the token in memory.
        assert_eq!([own(first, &token), own(second, &token), own(second, &token)], [200; 3]);
        first.send("DELETE", "personal_access_tokens/self", &token, "").expect(204);
        assert_eq!([own(second, &token), own(first, &token)], [401; 2]);
    }
}

#[test]
fn hosts_take_the_time_from_their_store_despite_wrong_clocks() {
    if !postgres::is_enabled() {
        return;
    }
    let Some(library) = postgres::clock_library() else {
        return println!("no clock is wrong: Debian's package faketime is missing");
    };
    let database = Postgres::start_with(&[], Own { clock: true, ..Own::default() });
    let url = database.new_database("forge");
    let hosts = ["+0s", "+3h"].map(|ahead| {
        let library = library.to_str().expect("text");
        let clock = [("LD_PRELOAD", library), ("FAKETIME", ahead), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
        host(&url, &[], &clock)
    });
    forge::seed(&hosts[0]);
    // The difference between the host's time in a new token and the database's time, in seconds.
    let ahead_of_database = |host: &Server| {
        let made = minted(host, "dated");
        let at = made["created_at"].as_str().expect("a time");
        let seconds = database.sql(&format!("select extract(epoch from '{at}' - clock_timestamp())::bigint;"));
        seconds.trim().parse::<i64>().expect("a number")
    };
    let is_right = |host: &Server| ahead_of_database(host).abs() < 600;
    assert!(is_right(&hosts[0]) && is_right(&hosts[1]), "{}", ahead_of_database(&hosts[1]));
    // The host checks clock and settings from time to time.
    let warning = wait_for_ok(HOUSEKEEPING, "a warning about the clock", || {
        let status = Operator::of(&hosts[1]).get("/status").json();
        status["host"]["postgres"]["warnings"][0].as_str().map(str::to_owned).ok_or(status)
    });
    // The check takes a moment.
    let is_three_hours = warning.contains("3h") || warning.contains("2h 59m");
    assert!(is_three_hours && warning.contains("ahead of"), "{warning}");
    // This is as after a promotion of a server with another clock.
    database.set_clock(7200);
    wait_until(HOUSEKEEPING, "both hosts to have the server's time", || hosts.iter().all(is_right));
}

#[test]
fn a_rate_limit_holds_over_all_hosts() {
    const LIMIT: usize = 7;
    let variable = ("SPIN_VARIABLE_NAMESPACES_EXISTS_RATE_LIMIT", "7");
    let Some((_database, hosts)) = two_hosts_with(&[variable]) else { return };
    let statuses: Vec<u16> =
        (0..2 * LIMIT).map(|number| hosts[number % 2].get("namespaces/acme/exists", DEVELOPER).status).collect();
    assert_eq!(statuses, [[200; LIMIT], [429; LIMIT]].concat());
}

#[test]
fn with_nothing_in_memory_a_revalidation_with_a_token_takes_two_round_trips() {
    if !postgres::is_enabled() {
        return;
    }
    let database = Postgres::start(&[]);
    let url = database.new_database("forge");
    let host = host(&url, &["--threads", "1", "--admin", "127.0.0.1:0"], &[]);
    forge::seed(&host);
    let registry = Registry::new(&host, PUBLIC, DEVELOPER);
    let tarball = package::tarball("known", "1.0.0", 1000, 1);
    assert_eq!(registry.publish("known", "1.0.0", &tarball).expect("an answer").status, 200);
    let tag = registry.get("/known").expect("an answer").header("etag").to_owned();
    let agent = http::agent();
    let revalidate = || {
        let request = agent.get(format!("{}/api/v4/projects/{PUBLIC}/packages/npm/known", host.url));
        let request = request.header("authorization", format!("Bearer {DEVELOPER}")).header("if-none-match", &tag);
        http::read(request.call().expect("an answer")).expect("an answer").status
    };
    assert_eq!([revalidate(), revalidate()], [304; 2]);
    let operator = Operator::of(&host);
    let reads = || operator.metric("hexad_postgres_reads_total");
    for _ in 0..3 {
        // When the connections break, everything in memory becomes invalid.
        let reconnects = operator.metric("hexad_postgres_reconnects_total");
        database.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hexad';");
        let has_reconnected = || operator.metric("hexad_postgres_reconnects_total") > reconnects;
        wait_until(SOON, "new connections of the host", has_reconnected);
        let before = reads();
        assert_eq!(revalidate(), 304);
        // The other round trip is the barrier.
        assert!(reads() - before <= 1, "{} reads besides the barrier", reads() - before);
        let before = reads();
        assert_eq!(revalidate(), 304);
        assert_eq!(reads(), before, "it is remembered");
    }
}

#[test]
fn while_the_store_is_away_requests_are_told_to_try_again_and_nothing_acknowledged_is_lost() {
    let Some((mut database, hosts)) = two_hosts() else { return };
    let registries = [0, 1].map(|n| Registry::new(&hosts[n], PUBLIC, DEVELOPER));
    let tarball = |version: &str| package::tarball("kept", version, 20_000, 7);
    let mut acknowledged = Vec::new();
    let publish = |number: usize, acknowledged: &mut Vec<String>| {
        let version = format!("1.{number}.0");
        let answer = registries[number % 2].publish("kept", &version, &tarball(&version)).expect("an answer");
        match answer.status {
            200 => acknowledged.push(version),
            503 => assert!(!answer.header("retry-after").is_empty(), "{}", answer.text()),
            // An earlier attempt, whose outcome was unknown, had succeeded.
            status => panic!("{status}: {}", answer.text()),
        }
    };
    (0..5).for_each(|number| publish(number, &mut acknowledged));
    assert_eq!(acknowledged.len(), 5);
    for round in 1..=3 {
        // The server dies in the middle of publishes.
        std::thread::scope(|scope| {
            let publisher = scope.spawn(|| {
                let mut acknowledged = Vec::new();
                (0..20).for_each(|number| publish(round * 100 + number, &mut acknowledged));
                acknowledged
            });
            publish(round * 100 + 50, &mut acknowledged);
            database.kill();
            let away = registries[0].get("/kept").expect("an answer");
            assert!(away.status == 503 && !away.header("retry-after").is_empty(), "{}", away.status);
            database.resume();
            acknowledged.extend(publisher.join().expect("a publisher"));
        });
        for registry in &registries {
            let metadata = wait_for(SOON, "a store that is back", || {
                let answer = registry.get("/kept").expect("an answer");
                assert!(matches!(answer.status, 200 | 503), "{}", answer.status);
                (answer.status == 200).then(|| answer.json())
            });
            for version in &acknowledged {
                assert!(metadata["versions"].get(version).is_some(), "{version} was acknowledged and is lost");
            }
            for version in metadata["versions"].as_object().expect("versions").keys() {
                let served = registry.get(&format!("/kept/-/kept-{version}.tgz")).expect("an answer");
                assert!(served.body == tarball(version), "{version} is listed and cannot be downloaded");
            }
        }
    }
}

#[test]
fn a_store_that_cannot_be_used_stops_the_start_with_one_sentence() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let refused = |url: &str, part: &str| {
        let mut command = up(Path::new("spin.toml"), data.path());
        let output = server::output(command.env("HEXAD_STORE", url));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(part), "{text}");
        assert!(output.stdout.is_empty() && !text.contains("secret"), "{text}");
    };
    refused("postgres://me:secret@db.invalid/forge", "PGPASSFILE");
    refused("mysql://db/forge", "postgres://");
    refused("postgres://me@127.0.0.1:1/forge", "start it");
}

#[test]
fn a_host_whose_server_has_no_room_is_not_ready_until_it_has() {
    const FULL_DISK: &str = "
        create function full_disk() returns trigger language plpgsql as 'begin raise disk_full; end';
        create trigger full_disk before insert or update on hexad.kv execute function full_disk();";
    let Some((database, hosts)) = two_hosts() else { return };
    let server = &hosts[0];
    let (operator, registry) = (Operator::of(server), Registry::new(server, PUBLIC, DEVELOPER));
    database.sql_in("forge", FULL_DISK);
    let tarball = package::tarball("refused", "1.0.0", 30_000, 1);
    assert_eq!(registry.publish("refused", "1.0.0", &tarball).expect("an answer").status, 503);
    let ready = operator.get("/readyz");
    assert_eq!((ready.status, ready.text()), (503, "store full\n".to_owned()));
    assert_eq!(registry.get("/refused").expect("an answer").status, 404, "reads go on");
    database.sql_in("forge", "drop trigger full_disk on hexad.kv;");
    // The host notices without a request.
    wait_until(SOON, "a host that is ready", || operator.get("/readyz").status == 200);
    assert_eq!(registry.publish("refused", "1.0.0", &tarball).expect("an answer").status, 200);
}

/// After the restore, the caches of instances (reserved ids of comments, records, catalogs) and of hosts (responses,
/// values) agree with the store.
#[test]
fn nothing_is_kept_across_the_restore_of_an_older_dump() {
    let Some((database, hosts)) = two_hosts() else { return };
    let repository = Repository::with(&[("a.txt", b"one\n")]);
    import_repository(&hosts[0], PRIVATE, &repository, &[]);
    Suggestions::new(&hosts[0], PRIVATE, DEVELOPER).import_merge_request(1, "topic");
    let comment = |host: &Server| {
        let path = format!("projects/{PRIVATE}/merge_requests/1/notes");
        host.send("POST", &path, DEVELOPER, r#"{"body": "x"}"#).expect(201).json()["id"].as_u64().expect("an id")
    };
    let own = |host: &Server, token: &str| host.get("personal_access_tokens/self", token).status;
    let package = |host: &Server| Registry::new(host, PUBLIC, DEVELOPER).get("/late").expect("an answer").status;

    let before: Vec<u64> = hosts.iter().map(comment).collect();
    let dump = database.dump("forge");
    // More comments than an instance reserves ids for at once.
    for _ in 0..80 {
        comment(&hosts[0]);
    }
    let token = minted(&hosts[0], "late")["token"].as_str().expect("a token").to_owned();
    let tarball = package::tarball("late", "1.0.0", 1000, 1);
    let publisher = Registry::new(&hosts[0], PUBLIC, DEVELOPER);
    assert_eq!(publisher.publish("late", "1.0.0", &tarball).expect("an answer").status, 200);
    for host in &hosts {
        assert_eq!((own(host, &token), package(host), package(host)), (200, 200, 200));
    }

    database.sql("drop database forge with (force);");
    database.new_database("forge");
    database.sql_in("forge", &dump);
    for host in &hosts {
        wait_for_ok(SOON, "the restored store", || match own(host, DEVELOPER) {
            200 => Ok(()),
            status => Err(status),
        });
        assert_eq!((own(host, &token), package(host)), (401, 404));
    }
    let mut ids: BTreeSet<u64> = before.iter().copied().collect();
    for _ in 0..100 {
        for host in &hosts {
            let id = comment(host);
            assert!(ids.insert(id), "two comments have the id {id}");
        }
    }
}

#[test]
fn two_hosts_that_load_the_demo_at_once_load_one() {
    if !postgres::is_enabled() {
        return;
    }
    let database = Postgres::start(&[]);
    let url = database.new_database("demo");
    let start = || host(&url, &["--demo"], &[]);
    let hosts = std::thread::scope(|scope| {
        let other = scope.spawn(start);
        [start(), other.join().expect("no panic")]
    });
    for server in &hosts {
        let is_loaded = || {
            let discussions = server.get("projects/2/merge_requests/1/discussions", BOOTSTRAP_TOKEN).json();
            server.has_demo() && discussions.as_array().is_some_and(|list| list.len() == 2)
        };
        wait_until(SOON, "the loaded demo", is_loaded);
    }
}

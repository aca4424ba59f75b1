//! Key-value storage as guests see it: results, grants, limits and durability.

use crate::*;
use hexad::store::sqlite::Sqlite;
use hexad::store::{Key, Ledger};

pub const GRANTS: &str = "read = [\"shared/\"]\nwrite = [\"probe/\"]";

/// Puts keys into a store before a host opens it.
pub async fn fill(folder: &tempfile::TempDir, keys: &[&str]) {
    let engine = Sqlite::open(&folder.path().join("data"), &sqlite::SqliteOptions::default()).unwrap();
    let backend = engine.backend().unwrap();
    let ledger = Ledger::default();
    for key in keys {
        let key = Key { store: "default".into(), key: (*key).into() };
        backend.increment(&ledger, key, 1).await.unwrap();
    }
    backend.durable(&ledger).await.unwrap();
}

#[tokio::test]
async fn values_are_set_read_and_deleted() {
    let server = Server::with("");
    assert_eq!(server.ok("kv/get?key=k").await, "none");
    assert_eq!(server.ok("kv/set?key=k&value=v").await, "set");
    assert_eq!(server.ok("kv/get?key=k").await, "some v");
    assert_eq!(server.ok("kv/exists?key=k").await, "true");
    assert_eq!(server.ok("kv/set-get?key=k&value=own").await, "some own", "a guest reads its own write");
    assert_eq!(server.ok("kv/delete?key=k").await, "deleted");
    assert_eq!(server.ok("kv/exists?key=k").await, "false");
    assert_eq!(server.ok("kv/increment?key=n&value=5").await, "5");
    assert_eq!(server.ok("kv/increment?key=n&value=-7").await, "-2");
}

#[tokio::test]
async fn batches_return_every_key_in_order() {
    let server = Server::with("");
    server.ok("kv/set-many?key=b,a&value=v").await;
    assert_eq!(server.ok("kv/get-many?key=b,none,a").await, "b:some v,none:none,a:some v");
    server.ok("kv/delete-many?key=a,none").await;
    assert_eq!(server.ok("kv/list").await, "b None");
}

/// Each handle has its own copy of the value in the host's memory.
#[tokio::test]
async fn values_held_by_handles_are_bounded_when_read_again() {
    let server = Server::with("");
    let kept = server.ok("kv/handles?key=k").await;
    assert!(kept.starts_with("2 ") && kept.contains("hold at most 67108864 bytes"), "{kept}");
}

#[tokio::test]
async fn several_writes_of_a_request_need_one_flush() {
    let server = Server::with("");
    assert_eq!(server.ok("kv/publish?key=p&value=v1").await, "swapped");
    assert_eq!(server.host.commits(), 1);
    assert_eq!(server.ok("kv/get?key=p/root").await, "some v1");
}

#[tokio::test]
async fn of_many_creators_exactly_one_wins() {
    let server = Server::with("");
    let paths: Vec<_> = (0..8).map(|n| format!("kv/create?key=root&value=v{n}")).collect();
    let outcomes = join_all(paths.iter().map(|path| server.ok(path))).await;
    let winners: Vec<_> = (0..8).filter(|n| outcomes[*n] == "swapped").collect();
    let [winner] = *winners else { panic!("{outcomes:?}") };
    assert_eq!(server.ok("kv/get?key=root").await, format!("some v{winner}"));
}

#[tokio::test]
async fn a_lost_swap_returns_the_present_value() {
    let server = Server::with("");
    assert_eq!(server.ok("kv/lose?key=k&value=mine").await, "lost to theirs");
    assert_eq!(server.ok("kv/get?key=k").await, "some theirs");
}

#[tokio::test]
async fn grants_are_enforced_by_prefix_and_label() {
    let folder = tempfile::tempdir().unwrap();
    fill(&folder, &["other/secret", "probe/v1/mine", "shared/x", "shared/y"]).await;
    let server = Server::over(folder, GRANTS, store());
    let refusals = "kv/get?key=other/secret kv/exists?key=other/secret kv/set?key=shared/x&value=v \
        kv/delete?key=shared/x kv/increment?key=shared/x kv/create?key=shared/z&value=v kv/get?key=prob \
        kv/get-many?key=shared/x,other/secret kv/set-many?key=probe/a,shared/x&value=v \
        kv/delete-many?key=probe/a,shared/x kv/open?value=elsewhere";
    for denied in refusals.split(' ') {
        assert_eq!(server.get(denied).await, (500, "access-denied".to_owned()), "{denied}");
    }
    assert_eq!(server.get("kv/open?value=nowhere").await, (500, "no-such-store".to_owned()));
    assert_eq!(server.ok("kv/exists?key=shared/x").await, "true");
    assert_eq!(server.ok("kv/exists?key=probe/a").await, "false", "a denied batch did nothing");
    assert_eq!(server.ok("kv/list").await, "probe/v1/mine,shared/x,shared/y None");
    assert_eq!(server.host.services()[1].component().grants.denied(), 11);
}

#[tokio::test]
async fn listings_come_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<_> = (0..1500).map(|n| format!("probe/v1/{n:04}")).collect();
    fill(&folder, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let server = Server::over(folder, GRANTS, store());
    let first = server.ok("kv/list").await;
    assert!(first.ends_with("probe/v1/0999 Some(\"probe/v1/0999\")"), "{first}");
    let second = server.ok("kv/list?value=probe/v1/0999").await;
    assert!(second.starts_with("probe/v1/1000,") && second.ends_with("probe/v1/1499 None"), "{second}");
}

#[tokio::test]
async fn keys_and_values_have_limits() {
    let server = Server::with("");
    for refused in [
        format!("kv/set?key={}&value=v", "k".repeat(1025)),
        "kv/set?key=&value=v".to_owned(),
        "kv/set-big?key=k&value=33554433".to_owned(),
    ] {
        let (status, reason) = server.get(&refused).await;
        assert!(status == 500 && reason.starts_with("other: a "), "{status} {reason}");
    }
    server.ok("kv/set-big?key=k&value=33554432").await;
    let (_, reason) = server.get("kv/increment?key=k").await;
    assert!(reason.contains("not a counter"), "{reason}");
}

#[tokio::test]
async fn a_response_is_replaced_if_its_writes_are_not_durable() {
    let store = sqlite::SqliteOptions { max_bytes: Some(256 * 1024), ..store() };
    let server = Server::over(tempfile::tempdir().unwrap(), "", store);
    let answer = server.get("kv/set-big?key=k&value=1000000").await;
    assert_eq!(answer.0, 503, "{}", answer.1);
    assert!(answer.1.contains("nothing of the request was stored"), "{}", answer.1);
    // The failure does not affect the next request of the same instance.
    assert_eq!(server.ok("kv/set?key=k&value=fits").await, "set");
    assert_eq!(server.ok("kv/get?key=k").await, "some fits");
}

#[tokio::test]
async fn a_write_after_the_response_head_becomes_durable() {
    let server = Server::with("");
    assert_eq!(server.ok("late").await, "early");
    // Only the guest waits for this write, and the test sets no age limit for transactions.
    let is_there = async || server.ok("kv/get?key=probe/v1/late").await != "none";
    wait_until_async(SOON, "the late write", is_there).await;
}

#[tokio::test]
async fn a_guest_that_fails_after_writing_is_answered_with_500() {
    let server = Server::with("");
    let response = server.send(get("write-and-trap?key=k&value=v")).await;
    assert_eq!(response.status(), 500);
}

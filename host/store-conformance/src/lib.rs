//! The contract of every engine, as functions over two shards of one store. Each engine's tests call all functions, and
//! each function has keys of its own.

use std::sync::Arc;

use hexad_store::{Backend, CasOutcome, ErrorKind, Key, Ledger, StoreError};
use tokio::sync::OwnedSemaphorePermit;

/// Two shards of one store, or of two hosts on it.
#[derive(Clone, Copy)]
pub struct Shards<'a> {
    pub one: &'a dyn Backend,
    pub two: &'a dyn Backend,
}

/// Runs all checks.
pub async fn check(shards: Shards<'_>) {
    writes_of_one_request_are_applied_in_order(shards).await;
    a_swap_is_exact_about_presence_and_bytes(shards).await;
    of_two_creators_one_wins_and_the_other_gets_its_value(shards).await;
    of_many_swaps_of_one_value_one_wins(shards).await;
    counters_have_spins_form_and_other_values_are_refused(shards).await;
    increments_from_everywhere_add_up(shards).await;
    a_prefix_is_listed_in_the_order_of_bytes(shards).await;
    many_values_are_read_in_the_order_of_the_keys(shards).await;
    stores_are_apart(shards).await;
    a_value_may_have_any_bytes_and_a_key_any_text(shards).await;
    cached_values_are_never_older_than_an_acknowledged_write(shards).await;
    a_deleted_key_is_gone_everywhere(shards).await;
}

pub fn key(name: &str) -> Key {
    Key { store: Arc::from("default"), key: Arc::from(name) }
}

pub fn permit() -> OwnedSemaphorePermit {
    Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_owned().unwrap()
}

pub async fn write(backend: &dyn Backend, name: &str, value: &[u8]) {
    let ledger = Ledger::default();
    backend.set(&ledger, key(name), value.to_vec(), permit()).await.unwrap();
    backend.durable(&ledger).await.unwrap();
}

/// Reads as a request that arrives now.
pub async fn read(backend: &dyn Backend, name: &str) -> Option<Vec<u8>> {
    if let Some(caught_up) = backend.catch_up() {
        caught_up.await.unwrap();
    }
    backend.get(&key(name)).await.unwrap()
}

async fn writes_of_one_request_are_applied_in_order(Shards { one, two }: Shards<'_>) {
    let ledger = Ledger::default();
    for n in 0u32..300 {
        one.set(&ledger, key("order"), n.to_le_bytes().to_vec(), permit()).await.unwrap();
    }
    one.delete(&ledger, key("order")).await.unwrap();
    one.set(&ledger, key("order"), b"last".to_vec(), permit()).await.unwrap();
    one.durable(&ledger).await.unwrap();
    assert!(ledger.is_settled() && ledger.may_have_stored());
    assert_eq!(read(two, "order").await.unwrap(), b"last");
}

async fn a_swap_is_exact_about_presence_and_bytes(Shards { one, .. }: Shards<'_>) {
    let ledger = Ledger::default();
    let swap = async |expected: Option<&[u8]>, value: &[u8]| {
        let expected = expected.map(<[u8]>::to_vec);
        one.cas(&ledger, key("swap"), expected, value.to_vec()).await.unwrap()
    };
    assert_eq!(swap(Some(b"v0"), b"v1").await, CasOutcome::Lost(None));
    assert_eq!(swap(None, b"").await, CasOutcome::Swapped);
    // An empty value is present.
    assert_eq!(swap(None, b"v1").await, CasOutcome::Lost(Some(Vec::new())));
    assert_eq!(swap(Some(b""), b"v1").await, CasOutcome::Swapped);
    assert_eq!(swap(Some(b"v"), b"v2").await, CasOutcome::Lost(Some(b"v1".to_vec())));
    one.durable(&ledger).await.unwrap();
}

async fn of_two_creators_one_wins_and_the_other_gets_its_value(Shards { one, two }: Shards<'_>) {
    let (first, second) = (Ledger::default(), Ledger::default());
    let (a, b) = tokio::join!(
        one.cas(&first, key("create"), None, b"mine".to_vec()),
        two.cas(&second, key("create"), None, b"yours".to_vec()),
    );
    let (winner, lost) = match (a.unwrap(), b.unwrap()) {
        (CasOutcome::Swapped, lost) => (b"mine".to_vec(), lost),
        (lost, CasOutcome::Swapped) => (b"yours".to_vec(), lost),
        outcome => panic!("no swap succeeded: {outcome:?}"),
    };
    assert_eq!(lost, CasOutcome::Lost(Some(winner.clone())));
    one.durable(&first).await.unwrap();
    two.durable(&second).await.unwrap();
    assert_eq!(read(one, "create").await, Some(winner));
}

async fn of_many_swaps_of_one_value_one_wins(Shards { one, two }: Shards<'_>) {
    write(one, "race", b"start").await;
    let swaps = (0..20u8).map(|n| async move {
        let (backend, ledger) = (if n % 2 == 0 { one } else { two }, Ledger::default());
        let swap = backend.cas(&ledger, key("race"), Some(b"start".to_vec()), vec![n]).await.unwrap();
        backend.durable(&ledger).await.unwrap();
        (n, swap)
    });
    let outcomes = futures::future::join_all(swaps).await;
    let winners: Vec<u8> = outcomes.iter().filter(|(_, swap)| *swap == CasOutcome::Swapped).map(|(n, _)| *n).collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    assert!(
        outcomes
            .iter()
            .all(|(_, swap)| matches!(swap, CasOutcome::Swapped) || *swap == CasOutcome::Lost(Some(winners.clone())))
    );
    assert_eq!(read(two, "race").await, Some(winners));
}

async fn counters_have_spins_form_and_other_values_are_refused(Shards { one, two }: Shards<'_>) {
    let ledger = Ledger::default();
    assert_eq!(one.increment(&ledger, key("counter"), 5).await.unwrap(), 5);
    assert_eq!(two.increment(&ledger, key("counter"), -7).await.unwrap(), -2);
    one.durable(&ledger).await.unwrap();
    assert_eq!(read(one, "counter").await, Some((-2i64).to_le_bytes().to_vec()));

    let ledger = Ledger::default();
    write(one, "no counter", b"12").await;
    let error = one.increment(&ledger, key("no counter"), 1).await.unwrap_err();
    assert!(matches!(error, StoreError::NotACounter { len: 2, .. }) && error.kind() == ErrorKind::Fault, "{error}");
    one.increment(&ledger, key("full"), i64::MAX).await.unwrap();
    let error = one.increment(&ledger, key("full"), 1).await.unwrap_err();
    assert!(matches!(error, StoreError::CounterOverflow { value: i64::MAX, delta: 1, .. }), "{error}");
    assert_eq!(one.increment(&ledger, key("full"), i64::MIN).await.unwrap(), -1);
    one.durable(&ledger).await.unwrap();
}

async fn increments_from_everywhere_add_up(Shards { one, two }: Shards<'_>) {
    let increments = (0..40).map(|n| async move {
        let (backend, ledger) = (if n % 2 == 0 { one } else { two }, Ledger::default());
        let sum = backend.increment(&ledger, key("sum"), 1).await.unwrap();
        backend.durable(&ledger).await.unwrap();
        sum
    });
    let mut sums = futures::future::join_all(increments).await;
    sums.sort_unstable();
    assert_eq!(sums, (1..=40).collect::<Vec<i64>>());
}

async fn a_prefix_is_listed_in_the_order_of_bytes(Shards { one, two }: Shards<'_>) {
    let ledger = Ledger::default();
    let names = ["list/Z", "list/_", "list/a", "list/\u{10ffff}", "list/\u{e9}", "list0", "list/a/1"];
    for name in names {
        one.set(&ledger, key(name), Vec::new(), permit()).await.unwrap();
    }
    one.durable(&ledger).await.unwrap();
    let store: Arc<str> = Arc::from("default");
    let all = ["list/Z", "list/_", "list/a", "list/a/1", "list/\u{e9}", "list/\u{10ffff}"];
    assert_eq!(two.list(&store, "list/", "", 100).await.unwrap(), all);
    assert_eq!(two.list(&store, "list/", "", 2).await.unwrap(), all[..2]);
    assert_eq!(two.list(&store, "list/", "list/_", 2).await.unwrap(), all[2..4]);
    assert_eq!(two.list(&store, "list/", "z", 2).await.unwrap(), [""; 0]);
    assert_eq!(two.list(&store, "list", "list/\u{10ffff}", 9).await.unwrap(), ["list0"]);
    assert!(two.list(&store, "", "", 100).await.unwrap().contains(&"list0".to_owned()));
}

async fn many_values_are_read_in_the_order_of_the_keys(Shards { one, two }: Shards<'_>) {
    let (ledger, store) = (Ledger::default(), Arc::<str>::from("default"));
    let pairs = (0..50u8).map(|n| (key(&format!("many/{n:02}")), vec![n; 10])).collect();
    one.set_many(&ledger, pairs, permit()).await.unwrap();
    one.durable(&ledger).await.unwrap();
    let keys = [key("many/07"), key("absent"), key("many/00"), key("many/07")];
    let seven = Some(vec![7; 10]);
    let values = two.get_many(&keys, 1000).await.unwrap();
    assert_eq!(values, [seven.clone(), None, Some(vec![0; 10]), seven]);
    let error = two.get_many(&keys, 20).await.unwrap_err();
    assert!(matches!(error, StoreError::ResultTooLarge { limit: 20 }), "{error}");
    assert!(two.get_many(&[], 0).await.unwrap().is_empty());
    let ledger = Ledger::default();
    one.delete_many(&ledger, (0..50u8).map(|n| key(&format!("many/{n:02}"))).collect()).await.unwrap();
    one.durable(&ledger).await.unwrap();
    assert!(two.list(&store, "many/", "", 9).await.unwrap().is_empty());
}

async fn stores_are_apart(Shards { one, two }: Shards<'_>) {
    let elsewhere = Key { store: Arc::from("other"), key: Arc::from("apart") };
    write(one, "apart", b"default").await;
    assert_eq!(two.get(&elsewhere).await.unwrap(), None);
    let ledger = Ledger::default();
    one.set(&ledger, elsewhere.clone(), b"other".to_vec(), permit()).await.unwrap();
    one.durable(&ledger).await.unwrap();
    assert_eq!(read(two, "apart").await.unwrap(), b"default");
    assert_eq!(two.get(&elsewhere).await.unwrap().unwrap(), b"other");
    assert!(two.exists(&elsewhere).await.unwrap());
}

async fn a_value_may_have_any_bytes_and_a_key_any_text(Shards { one, two }: Shards<'_>) {
    let large: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    for (name, value) in [("any/'\"\\%_ é 漢 \u{1f600}", &[0u8, 255, 128, 0][..]), ("any/large", &large)] {
        write(one, name, value).await;
        assert_eq!(read(two, name).await.as_deref(), Some(value));
    }
}

async fn cached_values_are_never_older_than_an_acknowledged_write(Shards { one, two }: Shards<'_>) {
    assert_eq!(read(two, "fresh").await, None);
    let mut present = None;
    for n in 0..50u8 {
        // The writer acknowledges the swap before the other shard reads. This shard has cached the value before.
        let ledger = Ledger::default();
        let swap = one.cas(&ledger, key("fresh"), present.clone(), vec![n]).await.unwrap();
        assert_eq!(swap, CasOutcome::Swapped);
        one.durable(&ledger).await.unwrap();
        present = Some(vec![n]);
        assert_eq!(read(two, "fresh").await, present);
        assert_eq!(read(one, "fresh").await, present);
    }
}

async fn a_deleted_key_is_gone_everywhere(Shards { one, two }: Shards<'_>) {
    write(one, "gone", b"1").await;
    assert_eq!(read(two, "gone").await.unwrap(), b"1");
    let ledger = Ledger::default();
    one.delete(&ledger, key("gone")).await.unwrap();
    one.delete(&ledger, key("never there")).await.unwrap();
    one.durable(&ledger).await.unwrap();
    assert_eq!(read(two, "gone").await, None);
    assert!(!two.exists(&key("gone")).await.unwrap());
}

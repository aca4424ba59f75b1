//! Storage that fails, reports a lost swap that took place, or has lost or damaged data.

use super::*;
use kit::store::Store;

fn forge() -> (Forge, Vec<u64>) {
    let (forge, _) = Forge::with(&[("a.txt", b"one\ntwo\n"), ("d/b.txt", b"b\n")]);
    let ids = [forge.suggest(1, "a.txt", 1, &block("", "1")), forge.suggest(1, "d/b.txt", 1, &block("", "B"))].concat();
    (forge, ids)
}

fn apply(forge: &Forge, store: impl Store + 'static, ids: &[u64]) -> TestResponse {
    let body = json!({"ids": ids}).to_string().into_bytes();
    send(forge.env_over(store), Method::PUT, "suggestions/batch_apply", "dev", "application/json", body)
}

#[test]
fn a_failure_at_any_point_leaves_all_or_nothing_and_a_repetition_completes() {
    let (forge, ids) = forge();
    let before = forge.head(PUBLIC, "topic");
    let failures = forge.fail_at_each_operation(|operations, after, failing| {
        let answer = apply(after, failing.clone(), &ids);
        if !failing.failed() {
            return assert_eq!(answer.status, 200);
        }
        assert_eq!(answer.status, 500, "after {operations} operations: {}", answer.text());
        let clone = after.clone(PUBLIC);
        let flags: Vec<(bool, bool)> = ids.iter().map(|id| after.flags(*id)).collect();
        if after.head(PUBLIC, "topic") == before {
            assert_eq!(flags, [(true, false); 2], "after {operations} operations");
            assert_eq!(apply(after, after.store.clone(), &ids).status, 200);
        } else {
            // The swap took place: both are applied, and cannot be applied again.
            assert_eq!(flags, [(false, true); 2], "after {operations} operations");
            assert_eq!(clone.text(&["show", "topic:a.txt"]), "1\ntwo");
            assert_eq!(clone.text(&["show", "topic:d/b.txt"]), "B");
            let again = apply(after, after.store.clone(), &ids).refusal();
            assert_eq!(again, (400, "Can't apply this suggestion.".into()));
        }
    });
    assert!(failures > 15, "{failures}");
}

#[test]
fn suggestions_that_a_dead_request_applied_are_recorded_by_the_next_one() {
    let (forge, ids) = forge();
    // The request dies between the swap and the records of the applied suggestions.
    let attempt = |operations| {
        let after = forge.copy();
        apply(&after, FailingStore::after(operations, after.store.clone()), &ids);
        Some(after).filter(|after| after.head(PUBLIC, "topic") != forge.head(PUBLIC, "topic"))
    };
    let forge = (0..).find_map(attempt).unwrap();
    assert!(!forge.store.keys().iter().any(|key| key.starts_with("suggestions/v1/applied/")));
    assert_eq!(forge.flags(ids[0]), (false, true));
    let next = forge.suggest(1, "a.txt", 2, &block("", "2"))[0];
    assert_eq!(forge.apply(next, "dev", Value::Null).status, 200);
    let applied = ids.iter().filter(|id| forge.store.keys().contains(&format!("suggestions/v1/applied/{id}")));
    assert_eq!(applied.count(), 2);
    assert_eq!(forge.flags(ids[1]), (false, true));
}

#[test]
fn a_swap_that_is_reported_as_lost_applies_once() {
    let (forge, ids) = forge();
    for _ in 0..2 {
        let after = forge.copy();
        assert_eq!(apply(&after, LostReplyStore::over(after.store.clone()), &ids).status, 200);
        assert_eq!(after.clone(PUBLIC).text(&["rev-list", "--count", "main..topic"]), "1");
    }
}

#[test]
fn a_missing_object_is_an_internal_error_and_nothing_is_applied() {
    let (forge, ids) = forge();
    let clone = forge.clone(PUBLIC);
    let before = forge.head(PUBLIC, "topic");
    for name in ["topic", "topic^{tree}", "topic:d", "topic:a.txt"] {
        let id = clone.text(&["rev-parse", name]);
        let damaged = forge.copy();
        damaged.store.delete(&format!("suggestions/v1/object/{PUBLIC}/{id}")).unwrap();
        let answer = apply(&damaged, damaged.store.clone(), &ids);
        assert_eq!(answer.refusal(), (500, "500 Internal Server Error".into()), "{name}");
        assert_eq!(damaged.head(PUBLIC, "topic"), before);
    }
}

#[test]
fn damaged_objects_are_an_internal_error() {
    let (forge, ids) = forge();
    let clone = forge.clone(PUBLIC);
    let id = clone.text(&["rev-parse", "topic:a.txt"]);
    let key = format!("suggestions/v1/object/{PUBLIC}/{id}");
    let good = forge.store.get(&key).unwrap().unwrap();
    let other =
        forge.store.get(&format!("suggestions/v1/object/{PUBLIC}/{}", clone.text(&["rev-parse", "topic"]))).unwrap();
    for bad in
        [Vec::new(), b"{".to_vec(), b"{}".to_vec(), good[..good.len() - 1].to_vec(), b"x".to_vec(), other.unwrap()]
    {
        let store = forge.store.snapshot();
        store.set(&key, &bad).unwrap();
        assert_eq!(apply(&forge, store, &ids).status, 500, "{bad:?}");
    }
}

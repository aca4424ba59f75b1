//! Requests while storage fails at any point.

use super::*;
use kit::testing::FailingStore;

/// Imports some lines while each store operation fails in turn. Afterwards either all lines or none are applied, and
/// the client can repeat the import. If the lines are not applied, the response is an error.
#[test]
fn an_import_is_applied_as_a_whole_or_not_at_all() {
    for operations in 0.. {
        let store = MemoryStore::default();
        let env = forge_on(store.clone());
        (1..4).for_each(|id| _ = import(&env, &[issue(id, json!({"title": "old"}))]));
        let failing = FailingStore::after(operations, store.clone());
        let lines: String = (1..6).map(|id| format!("{}\n", issue(id, json!({"title": "new"})))).collect();
        let fails = kit::testing::env(failing.clone(), &[]);
        fails.entropy.fill(&mut [0; 4096]);
        let answer = send_body(&fails, Method::POST, "/api/v4/import/issues", "root", lines.clone().into());
        let fresh = kit::testing::env(store, &[]);
        fresh.entropy.fill(&mut [0; 8192]);
        let found =
            ["old", "new"].map(|text| all(&fresh, "root", &format!("issues_statistics?scope=all&search={text}")));
        assert!([[3, 0], [0, 5]].contains(&found), "{found:?} after {operations}");
        if !failing.failed() {
            assert_eq!((answer.status, found), (200, [0, 5]));
            assert!(operations > 20, "every operation was made to fail once");
            return;
        }
        assert!(answer.status == 500 || (answer.status == 200 && found == [0, 5]), "after {operations}: {found:?}");
        let again = send_body(&fresh, Method::POST, "/api/v4/import/issues", "root", lines.into());
        assert_eq!(again.status, 200);
        assert_eq!(all(&fresh, "root", "issues_statistics?scope=all&search=new"), 5);
    }
}

#[test]
fn a_count_without_storage_is_an_error() {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    import(&env, &[issue(1, json!({"title": "a b"}))]);
    for operations in 0.. {
        let failing = FailingStore::after(operations, store.clone());
        let path = "groups/10/issues_statistics?search=a&not[labels]=y&created_after=2020-01-01";
        let answer = get(&kit::testing::env(failing.clone(), &[]), "alice", path);
        if !failing.failed() {
            return assert_eq!((answer.status, operations > 8), (200, true));
        }
        assert_eq!((answer.status, answer.body), (500, json!({"message": "500 Internal Server Error"})));
    }
}

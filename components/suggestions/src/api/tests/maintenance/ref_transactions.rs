//! Transactions of refs are kept as long as a ref is locked by one.

use super::*;

#[test]
fn a_transaction_is_removed_when_no_lock_names_it() {
    let timed = TimedForge::new();
    let (forge, repository) = (&timed.forge, RepositoryId::first(PUBLIC));
    let head = ObjectId::parse(&forge.head(PUBLIC, "topic"));
    let changes = || {
        [
            RefChange { name: "heads/main", old: head, new: head },
            RefChange { name: "heads/topic", old: head, new: None },
        ]
    };
    let keys = |part: &str| forge.store.keys().iter().filter(|key| key.contains(part)).count();
    let is_locked = || {
        let record = forge.store.get(&format!("suggestions/v1/ref/{PUBLIC}/heads%2Fmain")).unwrap();
        String::from_utf8(record.unwrap()).unwrap().contains("lock")
    };
    // Requests that die, the last one with a ref that is locked.
    let mut operations = 0;
    while !is_locked() {
        let failing = FailingStore::after(operations, forge.store.clone());
        assert!(update_all(&timed.env_over(failing), repository, &changes()).is_err());
        operations += 1;
    }
    assert!(keys("/ref_transaction/") > 1);
    timed.sweep_both();
    assert_eq!(keys("/ref_transaction/"), 1, "that of the locked ref");
    let env = timed.env();
    assert!(refs::read(&env, repository, "heads/topic").unwrap().is_some());
    timed.is_sound();
    assert_eq!(update_all(&env, repository, &changes()).unwrap(), Ok(()));
    assert_eq!(refs::read(&env, repository, "heads/topic").unwrap(), None);
    timed.sweep_both();
    assert_eq!(keys("/ref_transaction/"), 0);
    assert_eq!(refs::read(&env, repository, "heads/main").unwrap().map(|value| value.commit), head);
    timed.is_sound();
}

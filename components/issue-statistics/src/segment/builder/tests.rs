use super::*;
use crate::issue;
use crate::store::IndexStore;
use fastrand::Rng;
use kit::testing::{MemoryStore, env};

/// A full batch and the number of its documents.
fn filled(mut description: impl FnMut(u64) -> String) -> (SegmentBuilder, u32) {
    let mut batch = SegmentBuilder::default();
    let mut id = 0;
    while !batch.is_full() {
        id += 1;
        let line = serde_json::json!({"id": id, "project_id": 1, "description": description(id)}).to_string();
        batch.add(&issue::parse(line.as_bytes()).unwrap());
    }
    let documents = batch.document_count();
    (batch, documents)
}

#[test]
fn a_batch_is_bounded_by_the_memory_of_its_tables() {
    let mut rng = Rng::with_seed(1);
    let mut han = |_| (0..500).map(|_| rng.char('\u{4e00}'..'\u{9c20}')).collect();
    let (batch, documents) = filled(&mut han);
    assert!(batch.memory() < MAX_MEMORY + (1 << 20) && documents > 8000, "{documents} of {}", batch.memory());
    let mut rng = Rng::with_seed(1);
    let hashes = |_| (0..50).map(|_| format!("{:012x} ", rng.u64(..1 << 48))).collect();
    let (batch, documents) = filled(hashes);
    assert!(batch.memory() < MAX_MEMORY + (1 << 20) && documents > 8000, "{documents} of {}", batch.memory());
    let few_words = |id| format!("the same words {}", id % 10);
    assert_eq!(filled(few_words).1, MAX_DOCUMENTS);
}

#[test]
fn a_batch_is_bounded_by_its_ngrams() {
    let mut rng = Rng::with_seed(1);
    // Each word has letters of many alphabets.
    let letters = |_| (0..40).map(|_| rng.char('\u{250}'..'\u{950}')).collect();
    let (batch, documents) = filled(letters);
    assert!(documents < 3000 && batch.ngrams.count() < MAX_NGRAMS + 1000, "{documents}");
    let store = IndexStore::new(&env(MemoryStore::default(), &[]));
    let header = batch.finish(&store, "s").unwrap().header;
    assert!(header.merge_memory > u64::from(MAX_NGRAMS) * ngrams::ENTRY_MEMORY, "{}", header.merge_memory);
}

#[test]
fn no_blob_and_no_key_is_large() {
    let memory = MemoryStore::default();
    let store = IndexStore::new(&env(memory.clone(), &[]));
    let mut batch = SegmentBuilder::default();
    for id in 1..40 {
        let (word, label) = (format!("{id}").repeat(500_000), format!("l{id}").repeat(100_000));
        let line = serde_json::json!({"id": id, "project_id": 1, "title": word, "description": "a ".repeat(500_000),
            "labels": [label], "milestone": {"title": label, "start_date": "2026-01-01"}});
        batch.add(&issue::parse(line.to_string().as_bytes()).unwrap());
    }
    let header = batch.finish(&store, "s").unwrap().header;
    store.save_header("s", &header).unwrap();
    let largest = memory.keys().iter().map(|key| store.env.store.get(key).unwrap().unwrap().len()).max().unwrap();
    assert!(largest <= 1 << 20, "{largest}");
    let first_keys = header.tables.values().flat_map(|table| &table.pages).map(|page| page.first_key.len());
    assert!(first_keys.max().unwrap() < 400);
}

use super::*;

struct MemoryPages(Vec<Vec<u8>>);

impl PageSource for &MemoryPages {
    fn page(&self, number: usize, _: Option<u64>) -> Result<Bytes, StoreError> {
        self.0.get(number).map(|page| Bytes::copy_from_slice(page)).ok_or_else(|| self.corrupt())
    }

    fn corrupt(&self) -> StoreError {
        StoreError::corrupt("table", "damaged")
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key{:06}", number * 2).into_bytes()
}

fn table(count: u32) -> (MemoryPages, PageIndex) {
    let mut pages = Vec::new();
    let mut writer = TableWriter::new(|number, page: &[u8]| {
        assert_eq!(number, pages.len());
        pages.push(page.to_vec());
        Ok(())
    });
    for number in 0..count {
        writer.push(&key(number), &vec![number as u8; (number % 100) as usize]).unwrap();
    }
    let index = writer.finish().unwrap();
    (MemoryPages(pages), index)
}

#[test]
fn pushed_entries_are_found() {
    let (memory, index) = table(10_000);
    assert!(index.pages.len() > 5);
    let table = Table { index: &index, pages: &memory };
    for number in [0, 1, 77, 5000, 9999] {
        assert_eq!(table.get(&key(number)).unwrap().unwrap().len(), (number % 100) as usize);
        assert_eq!(table.nth(number).unwrap().key, key(number));
        let above = format!("key{:06}", number * 2 + 1);
        assert_eq!(table.get(above.as_bytes()).unwrap(), None);
        assert_eq!(table.floor(above.as_bytes()).unwrap().unwrap().key, key(number));
        assert_eq!(table.floor(&key(number)).unwrap().unwrap().key, key(number));
        assert_eq!(table.rank(above.as_bytes()).unwrap(), Some(number));
        assert_eq!(table.rank(&key(number)).unwrap(), Some(number));
    }
    assert_eq!(table.floor(b"a").unwrap(), None);
    assert_eq!(table.rank(b"a").unwrap(), None);
    assert_eq!(table.get(b"a").unwrap(), None);
    assert!(table.nth(10_000).is_err());
}

#[test]
fn a_cursor_crosses_pages() {
    let (memory, index) = table(10_000);
    for start in [0, 1, 1234, 9999] {
        let mut cursor = Table { index: &index, pages: &memory }.cursor_from(&key(start)).unwrap();
        for number in start..10_000 {
            assert_eq!(cursor.next().unwrap().unwrap().key, key(number));
        }
        assert_eq!(cursor.next().unwrap(), None);
    }
    let mut cursor = Table { index: &index, pages: &memory }.cursor_from(b"z").unwrap();
    assert_eq!(cursor.next().unwrap(), None);
}

#[test]
fn seek_goes_forward() {
    let (memory, index) = table(10_000);
    let table = || Table { index: &index, pages: &memory };
    for step in [1, 2, 3, 17, 999, 5000] {
        let mut cursor = table().cursor_from(&[]).unwrap();
        for number in (0..10_000).step_by(step) {
            let found = cursor.seek(&key(number)).unwrap();
            assert_eq!(found.map(|value| value.len()), Some((number % 100) as usize), "{number} by {step}");
            assert!(cursor.seek(&key(number)).unwrap().is_some());
            assert_eq!(cursor.seek(format!("key{:06}", number * 2 + 1).as_bytes()).unwrap(), None);
        }
        assert_eq!(cursor.seek(b"z").unwrap(), None);
    }
    assert_eq!(table().cursor_from(&[]).unwrap().seek(b"a").unwrap(), None);
}

#[test]
fn a_long_value_is_several_blobs() {
    let mut pages = Vec::new();
    let mut writer = TableWriter::new(|number, blob: &[u8]| {
        assert!(number == pages.len() && blob.len() <= MAX_BLOB);
        pages.push(blob.to_vec());
        Ok(())
    });
    let long = |number: u32| vec![number as u8; 3 * MAX_BLOB + number as usize];
    for number in 0..6 {
        writer.push(&key(number), &if number % 2 == 1 { long(number) } else { vec![1] }).unwrap();
    }
    let index = writer.finish().unwrap();
    assert_eq!(pages.len(), index.blob_count());
    assert!(index.pages.len() < 7 && pages.len() > 9);
    let memory = MemoryPages(pages);
    let table = Table { index: &index, pages: &memory };
    assert_eq!(table.get(&key(3)).unwrap().unwrap(), long(3));
    assert_eq!((table.get(&key(4)).unwrap().unwrap().len(), table.nth(5).unwrap().value.len()), (1, long(5).len()));
}

#[test]
fn an_empty_table_has_nothing() {
    let (memory, index) = table(0);
    let table = Table { index: &index, pages: &memory };
    assert_eq!((table.get(b"a").unwrap(), table.floor(b"a").unwrap()), (None, None));
    assert_eq!(table.cursor_from(b"").unwrap().next().unwrap(), None);
    let table = Table { index: &index, pages: &memory };
    assert_eq!(table.cursor_from(b"").unwrap().seek(b"a").unwrap(), None);
}

#[test]
fn damaged_pages_give_no_value() {
    let (mut memory, index) = table(10);
    for damage in [vec![], vec![0xff; 8], vec![1, 2, 3, 4, 5, 200, 0, 0, 0, 1, 0, 0, 0]] {
        memory.0[0] = damage;
        let table = Table { index: &index, pages: &memory };
        let found = table.get(&key(3));
        assert!(!matches!(found, Ok(Some(_))), "{found:?}");
    }
}

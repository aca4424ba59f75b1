//! Indexes of packs that are wrong about which object a delta builds on.

use super::pack_damage::{BASE, DEPTH, ENTRY, forge, heads, problems, with, with_bytes};
use super::*;

/// Fetches a branch alone, so that the entries of its objects are copied. Returns the file with the delta.
fn fetch(forge: &Forge) -> Result<String, String> {
    let client = Repository::empty();
    forge.git(&client, PUBLIC, "", &["fetch", "-q", "URL", "topic"])?;
    Ok(client.text(&["show", "FETCH_HEAD:long"]))
}

#[test]
fn wrong_bases_and_depths_are_found_and_no_client_gets_other_bytes() {
    let (forge, pack) = forge();
    let page = format!("suggestions/v1/pack_index/{pack}/0");
    let good = forge.store.get(&page).unwrap().unwrap();
    let expected = fetch(&forge).unwrap();
    assert!(expected.ends_with("more"));
    let count = u32::try_from(good.len() / ENTRY).unwrap();
    let mut deltas = 0;
    for at in (0..good.len()).step_by(ENTRY) {
        let bases = (0..count).chain([u32::MAX]).map(|base| with_bytes(&good, at + BASE, &base.to_be_bytes()));
        let depths = [0, 1, 2, 3, 255].map(|depth| with_bytes(&good, at + DEPTH, &[depth]));
        let is_delta = good[at + DEPTH] > 0;
        deltas += usize::from(is_delta);
        for bad in bases.chain(depths).filter(|bad| *bad != good) {
            let damaged = with(&forge, &page, Some(&bad));
            let found = problems(&damaged);
            assert!(found.iter().any(|(key, why)| *key == page && why.contains("(project 7)")), "{at}: {found:?}");
            if bad[at + DEPTH] > 0 {
                assert_eq!(fetch(&damaged).as_ref(), Ok(&expected), "{at}");
            }
        }
    }
    assert!(deltas > 0);
}

#[test]
fn a_delta_that_its_index_takes_for_a_whole_object_is_not_sent() {
    let (forge, pack) = forge();
    let page = format!("suggestions/v1/pack_index/{pack}/0");
    let good = forge.store.get(&page).unwrap().unwrap();
    let delta = (0..good.len()).step_by(ENTRY).find(|at| good[at + DEPTH] > 0).unwrap();
    let [_, topic] = heads(&forge);
    let fetch = |forge: &Forge| {
        let mut body = Vec::new();
        pktline::write_text(&mut body, &format!("want {topic}\n"));
        pktline::write_flush(&mut body);
        pktline::write_text(&mut body, "done\n");
        let path = format!("/api/v4/projects/{PUBLIC}/repository.git/git-upload-pack");
        let mut request = Request::new(Method::POST, &path);
        request.body = body.into();
        let response = block_on(crate::api::handle(forge.env(), request));
        block_on(response.body.collect(1 << 30)).map_err(|error| format!("{error:?}"))
    };
    assert!(fetch(&forge).is_ok());
    let error = fetch(&with(&forge, &page, Some(&with_bytes(&good, delta + DEPTH, &[0])))).unwrap_err();
    assert!(error.contains(&format!("pack/{pack}/0")) && error.contains("(project 7)"), "{error}");
}

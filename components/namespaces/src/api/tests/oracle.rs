//! Lists and totals, compared with a naive filter, for random names and queries.

use super::{Forge, new_group};
use directory::access::Role;
use directory::catalog;
use directory::member::Source;
use directory::namespace::NewGroup;
use fastrand::Rng;

/// A text of one to `longest` of these letters.
fn text(rng: &mut Rng, letters: &str, longest: u64) -> String {
    let letters: Vec<char> = letters.chars().collect();
    (0..rng.u64(1..=longest)).map(|_| rng.choice(&letters).unwrap()).collect()
}

/// The properties of a namespace, without the catalog's columns.
struct Row {
    id: u64,
    path: String,
    name: String,
    full_path: String,
    full_name: String,
    top: bool,
    /// Whether user 2 is in it, and owns it.
    mine: bool,
    owned: bool,
}

fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn matches(text: &str, search: &str) -> bool {
    let search = fold(&search.split_whitespace().collect::<Vec<_>>().join(" "));
    let words: Vec<&str> = match search.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(phrase) if !phrase.is_empty() && !phrase.contains('"') => vec![phrase.trim()],
        _ => search.split(' ').collect(),
    };
    let long: Vec<&str> = words.into_iter().filter(|word| word.chars().count() >= 3).collect();
    let text = fold(text);
    search.is_empty() || if long.is_empty() { text == search } else { long.iter().all(|word| text.contains(word)) }
}

#[test]
fn lists_and_totals_match_a_naive_filter() {
    let mut asked = 0;
    for seed in 0..6 {
        let (forge, mut rng) = (Forge::empty(), Rng::with_seed(seed));
        forge.user(1, "root");
        forge.user(2, "aab");
        forge.user(3, "bba");
        for id in 10..90 {
            let parent = rng.u64(10..=id);
            let parent = if rng.u64(..3) == 0 || parent == id { None } else { Some(parent) };
            let name = if seed % 2 == 0 { text(&mut rng, "abAB ", 6) } else { text(&mut rng, "aBäÄİ /", 6) };
            let name = if name.trim().is_empty() { "a".into() } else { name };
            let depth = parent.is_some_and(|parent| {
                catalog::read(&forge.0).unwrap().namespace(parent).is_none_or(|found| found.lineage().count() > 8)
            });
            let path = format!(
                "{}{}",
                text(&mut rng, "abA", 5),
                if rng.u64(..4) == 0 { String::new() } else { id.to_string() }
            );
            let group = NewGroup { name, ..new_group(id, &path, parent.filter(|_| !depth)) };
            if directory::namespace::child(&forge.0, group.parent_id, &path).unwrap().is_none() {
                forge.save_group(group);
            }
            if rng.u64(..4) == 0 {
                let role = rng.choice([Role::MinimalAccess, Role::Guest, Role::Owner]).unwrap();
                forge.join(2, Source::Group(id), role, None);
            }
        }
        let memberships = directory::member::of_user(&forge.0, 2).unwrap();
        let catalog = catalog::read(&forge.0).unwrap();
        let rows: Vec<Row> = catalog
            .namespaces()
            .map(|found| {
                let role = memberships.role(Source::Group(found.id()), forge.0.now);
                let own = found.owner() == Some(2);
                Row {
                    id: found.id(),
                    path: found.path().into(),
                    name: found.name().into(),
                    full_path: found.full_path(),
                    full_name: found.full_name(),
                    top: found.parent().is_none(),
                    mine: own || role >= Role::Guest,
                    owned: own || role == Role::Owner,
                }
            })
            .collect();
        for _ in 0..250 {
            let mut search: Vec<String> = (0..rng.u64(..3))
                .map(|_| if seed % 2 == 0 { text(&mut rng, "abAB/", 3) } else { text(&mut rng, "aBäÄİ/", 3) })
                .collect();
            if rng.u64(..4) == 0 {
                search = vec![format!("\"{}\"", text(&mut rng, "ab /", 5))];
            }
            let search = search.join(" ");
            let (full, top, owned, admin) = (rng.bool(), rng.u64(..3) == 0, rng.u64(..3) == 0, rng.bool());
            let (page, per_page) = (rng.u64(1..=4), rng.u64(1..=30));
            let expected: Vec<u64> = rows
                .iter()
                .filter(|row| admin || if owned { row.owned } else { row.mine })
                .filter(|row| !top || row.top)
                .filter(|row| match full {
                    true => matches(&row.full_path, &search) || matches(&row.full_name, &search),
                    false => matches(&row.path, &search) || matches(&row.name, &search),
                })
                .map(|row| row.id)
                .collect();
            let encoded = kit::path::encode(&search);
            let query = format!(
                "namespaces?search={encoded}&full_path_search={full}&top_level_only={top}&owned_only={owned}&page={page}&per_page={per_page}"
            );
            let answer = forge.get(if admin { "t1" } else { "t2" }, &query);
            assert_eq!(answer.header("x-total"), expected.len().to_string(), "seed {seed}: {search:?} {query}");
            let slice: Vec<u64> =
                expected.into_iter().skip(((page - 1) * per_page) as usize).take(per_page as usize).collect();
            assert_eq!(answer.ids(), slice, "seed {seed}: {search:?} {query}");
            asked += usize::from(!slice.is_empty());
        }
    }
    assert!(asked > 300, "{asked} of the questions had an answer");
}

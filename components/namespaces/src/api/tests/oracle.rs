//! Lists and totals against a plain reading of the rules, over random names and questions.

use super::{Forge, new_group};
use directory::access::Role;
use directory::catalog;
use directory::member::Source;
use directory::namespace::NewGroup;

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn text(&mut self, letters: &str, longest: u64) -> String {
        let letters: Vec<char> = letters.chars().collect();
        (0..=self.below(longest)).map(|_| letters[self.below(letters.len() as u64) as usize]).collect()
    }
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
fn lists_and_totals_are_those_of_the_rules() {
    let mut asked = 0;
    for seed in 0..6 {
        let (forge, mut dice) = (Forge::empty(), Dice(seed));
        forge.user(1, "root");
        forge.user(2, "aab");
        forge.user(3, "bba");
        for id in 10..90 {
            let parent = 10 + dice.below(id - 9);
            let parent = if dice.below(3) == 0 || parent == id { None } else { Some(parent) };
            let name = if seed % 2 == 0 { dice.text("abAB ", 6) } else { dice.text("aBäÄİ /", 6) };
            let name = if name.trim().is_empty() { "a".into() } else { name };
            let depth = parent.is_some_and(|parent| {
                catalog::read(&forge.0).unwrap().namespace(parent).is_none_or(|found| found.lineage().count() > 8)
            });
            let path =
                format!("{}{}", dice.text("abA", 5), if dice.below(4) == 0 { String::new() } else { id.to_string() });
            let group = NewGroup { name, ..new_group(id, &path, parent.filter(|_| !depth)) };
            if directory::namespace::child(&forge.0, group.parent_id, &path).unwrap().is_none() {
                forge.save_group(group);
            }
            if dice.below(4) == 0 {
                let role = [Role::MinimalAccess, Role::Guest, Role::Owner][dice.below(3) as usize];
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
            let mut search: Vec<String> = (0..dice.below(3))
                .map(|_| if seed % 2 == 0 { dice.text("abAB/", 3) } else { dice.text("aBäÄİ/", 3) })
                .collect();
            if dice.below(4) == 0 {
                search = vec![format!("\"{}\"", dice.text("ab /", 5))];
            }
            let search = search.join(" ");
            let (full, top, owned, admin) =
                (dice.below(2) == 0, dice.below(3) == 0, dice.below(3) == 0, dice.below(2) == 0);
            let (page, per_page) = (1 + dice.below(4), 1 + dice.below(30));
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

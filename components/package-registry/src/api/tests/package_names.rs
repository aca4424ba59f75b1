//! The names of a project's packages, however many.

use super::*;
use crate::name::PackageName;
use crate::store;
use directory::project::ProjectKey;
use kit::store::Store as _;
use kit::testing::{Behaviour, CountingStore, Simulation};

const FIRST: &str = "package-registry/v1/project/7";
const PAGES: &str = "package-registry/v3/names/";

fn name(number: u64) -> PackageName {
    PackageName::parse(&format!("@acme/lib-{number:05}")).unwrap()
}

fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<PackageName> {
    numbers.into_iter().map(name).collect()
}

fn project(env: &Env) -> ProjectKey {
    project::by_id(env, PUBLIC).unwrap().unwrap().key()
}

fn add(env: &Env, names: impl IntoIterator<Item = u64>) {
    let project = project(env);
    names.into_iter().for_each(|number| store::add_project_with_name(env, &name(number), &project).unwrap());
}

fn listed(forge: &Forge) -> Vec<PackageName> {
    store::names(&forge.env(), &project(&forge.env())).unwrap()
}

/// A forge with the list of an earlier build, which had one list for all names.
fn with_long_list(count: u64) -> Forge {
    let forge = Forge::new();
    let names: Vec<String> = (0..count).map(|number| name(number).as_str().to_owned()).collect();
    forge.store.set(FIRST, json!({"packages": names}).to_string().as_bytes()).unwrap();
    forge
}

#[test]
fn a_new_name_costs_the_same_however_many_there_are() {
    let forge = Forge::new();
    add(&forge.env(), (0..5_000).rev());
    assert_eq!(listed(&forge), numbered(0..5_000), "each once, and sorted");
    let cost = |forge: &Forge, number: u64| {
        let counting = CountingStore::over(forge.store.clone());
        add(&forge.env_over(counting.clone()), [number]);
        (counting.operations(), counting.bytes())
    };
    let few = cost(&Forge::new(), 10_000);
    let many = cost(&forge, 10_000);
    assert!(many.0 <= few.0 + 6 && many.1 < 60_000, "{few:?}, {many:?}");
    let keys = forge.store.keys();
    let lists = keys.iter().filter(|key| (key.starts_with(FIRST) || key.starts_with(PAGES)) && !key.ends_with("/init"));
    for key in lists {
        let size = forge.store.get(key).unwrap().unwrap().len();
        assert!(size < 20_000, "{key} has {size} bytes");
    }
}

#[test]
fn the_long_list_of_an_earlier_build_is_rewritten_at_the_next_name() {
    let forge = with_long_list(20_000);
    let before = forge.store.get(FIRST).unwrap();
    add(&forge.env(), 0..100);
    assert_eq!(forge.store.get(FIRST).unwrap(), before, "nothing is new");
    add(&forge.env(), 20_000..20_500);
    assert_eq!(listed(&forge), numbered(0..20_500));
    let counting = CountingStore::over(forge.store.clone());
    add(&forge.env_over(counting.clone()), [20_500]);
    assert!(counting.bytes() < 60_000, "{}", counting.bytes());
    let found = forge.get("/projects/7/packages/npm/-/v1/search?text=lib-20500").json();
    assert_eq!(found["total"], 0, "no such package was published");
    forge.publish(PUBLIC, "@acme/lib-20500", "1.0.0");
    assert_eq!(forge.get("/projects/7/packages/npm/-/v1/search?text=lib-20500").json()["total"], 1);
    assert_eq!(forge.get("/groups/acme/-/packages/npm/-/v1/search?text=lib-20500").json()["total"], 1);
    assert_eq!(damage::problems(&forge), [""; 0]);
}

#[test]
fn names_that_come_at_once_are_all_listed() {
    let file = Behaviour { read: 5..50, write: 1_300..4_000, seen_after: 0, stalls: 0, stall: 0 };
    for count in [511, 512, 600] {
        let forge = with_long_list(count);
        let simulation = Simulation::new(count, file.clone());
        for key in forge.store.keys() {
            simulation.env(99).store.set(&key, &forge.store.get(&key).unwrap().unwrap()).unwrap();
        }
        let writer = |number: u64| move |env: Env| add(&env, [count + number, count + number % 8]);
        simulation.run((0..24).map(writer).collect());
        let env = simulation.env(99);
        assert_eq!(store::names(&env, &project(&env)).unwrap(), numbered(0..count + 24), "beside {count}");
    }
}

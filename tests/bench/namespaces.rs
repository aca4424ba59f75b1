//! `make bench-namespaces`: lists and searches of 200,000 namespaces, one client, beside PostgreSQL
//! with `pg_trgm` on the same data, and beside a guest with a fixed answer.
//!
//! Every request is sent twice: the component answers the first, the host's response cache the second. The benchmark
//! asserts only that hexad and PostgreSQL agree on totals. On a shared machine the ratios are more stable than the
//! numbers.

#[allow(dead_code, reason = "the other benchmarks use the rest")]
mod component;
#[allow(dead_code, reason = "the other benchmarks use the rest")]
mod load;

use hexad_tests::postgres::{self, Postgres};
use hexad_tests::server::{BOOTSTRAP_TOKEN, Server};
use load::{Load, Request};

use std::time::Instant;

const GROUPS: u64 = 100_000;
const USERS: u64 = 100_000;
const REQUESTS: u64 = 100;

/// Syllables of names.
const SYLLABLES: [&str; 24] = [
    "ba", "co", "de", "fi", "gu", "ha", "jo", "ke", "li", "mo", "na", "pe", "qui", "ro", "sta", "tre", "un", "vel",
    "wo", "xen", "yo", "zar", "cra", "dro",
];

/// A word, always the same one for the same number.
fn word(number: u64) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..3 + mixed % 3).map(|at| SYLLABLES[(mixed >> (8 + at * 8)) as usize % SYLLABLES.len()]).collect()
}

struct Row {
    id: u64,
    parent: Option<u64>,
    path: String,
    name: String,
    full_path: String,
    full_name: String,
    is_user: bool,
}

/// Groups, a third of them at the top, and users, by id.
fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for id in 1..=GROUPS {
        let parent = (id % 3 != 1).then_some(1 + id / 4);
        let (path, name) = (format!("{}-{id}", word(id)), format!("{} {}", word(id * 7), word(id * 11)));
        let above = parent.and_then(|parent| rows.get(parent as usize - 1));
        let full_path = above.map_or(path.clone(), |above| format!("{}/{path}", above.full_path));
        let full_name = above.map_or(name.clone(), |above| format!("{} / {name}", above.full_name));
        rows.push(Row { id, parent, path, name, full_path, full_name, is_user: false });
    }
    for id in 1..=USERS {
        let (path, name) = (format!("{}{id}", word(id * 13)), format!("{} {}", word(id * 17), word(id * 19)));
        let (full_path, full_name) = (path.clone(), name.clone());
        rows.push(Row { id: 4_000_000_000 + id, parent: None, path, name, full_path, full_name, is_user: true });
    }
    rows
}

fn import(server: &Server, rows: &[Row]) {
    let mut lines = String::new();
    for row in rows {
        let line = match row.is_user {
            true => format!(
                "{{\"kind\":\"user\",\"id\":{},\"username\":\"{}\",\"name\":\"{}\"}}\n",
                row.id - 4_000_000_000,
                row.path,
                row.name
            ),
            false => {
                let parent = row.parent.map_or("null".into(), |parent| parent.to_string());
                format!(
                    "{{\"kind\":\"group\",\"id\":{},\"path\":\"{}\",\"name\":\"{}\",\"parent_id\":{parent}}}\n",
                    row.id, row.path, row.name
                )
            }
        };
        lines.push_str(&line);
    }
    let started = Instant::now();
    let answer = ureq::post(format!("{}/api/v4/import/directory", server.url))
        .header("private-token", BOOTSTRAP_TOKEN)
        .content_type("application/x-ndjson")
        .send(&lines)
        .expect("the import is accepted")
        .body_mut()
        .read_to_string()
        .expect("an answer");
    assert!(answer.contains("\"failed\":0"), "{answer}");
    let seconds = started.elapsed().as_secs_f64();
    println!("import: {} records in {seconds:.1} s, {:.0} a second", rows.len(), rows.len() as f64 / seconds);
}

fn fill(postgres: &Postgres, rows: &[Row]) {
    let mut sql = String::from(
        "create extension pg_trgm;
        create table namespaces (id bigint primary key, parent_id bigint, path text, name text, full_path text, full_name text);
        copy namespaces from stdin;\n",
    );
    for row in rows {
        let parent = row.parent.map_or("\\N".into(), |parent| parent.to_string());
        let columns = [
            row.id.to_string(),
            parent,
            row.path.clone(),
            row.name.clone(),
            row.full_path.clone(),
            row.full_name.clone(),
        ];
        sql.push_str(&columns.join("\t"));
        sql.push('\n');
    }
    sql.push_str("\\.\n");
    for column in ["path", "name", "full_path", "full_name"] {
        sql.push_str(&format!("create index on namespaces using gin ({column} gin_trgm_ops);\n"));
    }
    sql.push_str("create index on namespaces (parent_id, id); vacuum analyze namespaces;");
    postgres.sql_within(postgres::QUERIES, &sql);
}

/// A page's query and the query for the total, as the reference service sends them.
fn page_sql(condition: &str, page: u64) -> [String; 2] {
    let offset = (page - 1) * 20;
    [
        format!("select * from namespaces where {condition} order by id limit 20 offset {offset};"),
        format!("select count(*) from namespaces where {condition};"),
    ]
}

/// The same query for hexad and PostgreSQL.
struct Comparison {
    query: String,
    condition: String,
    page: u64,
}

fn comparison(query: String, condition: &str, page: u64) -> Comparison {
    Comparison { query: format!("page={page}&{query}"), condition: condition.to_owned(), page }
}

fn request(path: &str) -> Request {
    Request::of("GET", path, &[("private-token", BOOTSTRAP_TOKEN)], "")
}

/// Requests each path once, one after the other on one connection.
fn request_each(server: &Server, paths: &[String]) -> Load {
    load::each_once(&server.url, paths.iter().map(|path| request(path)).collect(), 1)
}

fn print(name: &str, server: &Server, paths: &[String]) -> f64 {
    // The second time is within the lifetime of cached responses.
    let (answered, cached) = (request_each(server, paths), request_each(server, paths));
    let of = |load: &Load| format!("{:>10.3}{:>9.3}", load.percentile(0.5), load.percentile(0.99));
    print!("{name:<28}{}{}", of(&answered), of(&cached));
    answered.percentile(0.5)
}

fn main() {
    let rows = rows();
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    import(&server, &rows);
    let postgres = Postgres::start(postgres::FOR_QUERIES);
    fill(&postgres, &rows);
    let path = |rest: &str| format!("/api/v4/{rest}");
    let first = request_each(&server, &[path("namespaces?search=warm-up")]);
    println!("first request to a new instance: {:.1} ms", first.percentile(0.5));
    let warm = |at| format!("namespaces?search=warm-up-{at}&full_path_search={}", at % 2);
    request_each(&server, &(0..40).map(|at| path(&warm(at))).collect::<Vec<_>>());
    let other = tempfile::tempdir().expect("a temporary folder");
    let hello = component::hexad(other.path(), false);
    let again = vec!["/".to_owned(); 200];
    request_each(&hello, &again);
    let like = |word: &str| format!("(path ilike '%{word}%' or name ilike '%{word}%')");
    let full_like = |word: &str| format!("(full_path ilike '%{word}%' or full_name ilike '%{word}%')");
    let one = |at: u64| word(at * 77);
    type Kind = (&'static str, Box<dyn Fn(u64) -> Comparison>);
    let kinds: Vec<Kind> = vec![
        ("a page", Box::new(|at| comparison(String::new(), "true", 1 + at * 97))),
        (
            "a page of the top level",
            Box::new(|at| comparison("top_level_only=true".into(), "parent_id is null", 1 + at * 60)),
        ),
        ("a word, few rows", Box::new(move |at| comparison(format!("search={}", one(at)), &like(&one(at)), 1))),
        (
            "three letters, many rows",
            Box::new(move |at| {
                let part: String = one(at).chars().take(3).collect();
                comparison(format!("search={part}"), &like(&part), 1 + at % 7)
            }),
        ),
        (
            "a word and a number",
            Box::new(move |at| {
                comparison(format!("search={}-{at}", word(at)), &like(&format!("{}-{at}", word(at))), 1)
            }),
        ),
        (
            "two words",
            Box::new(move |at| {
                let (a, b) = (word(at * 7), word(at * 11));
                let both = |column: &str| format!("({column} ilike '%{a}%' and {column} ilike '%{b}%')");
                comparison(format!("search={a}+{b}"), &format!("({} or {})", both("path"), both("name")), 1)
            }),
        ),
        ("no row", Box::new(move |at| comparison(format!("search=zzq{at}x"), &like(&format!("zzq{at}x")), 1))),
        (
            "a word, top level only",
            Box::new(move |at| {
                comparison(
                    format!("search={}&top_level_only=true", one(at)),
                    &format!("{} and parent_id is null", like(&one(at))),
                    1,
                )
            }),
        ),
        (
            "a word in full paths",
            Box::new(move |at| {
                comparison(format!("search={}&full_path_search=true", one(at)), &full_like(&one(at)), 1)
            }),
        ),
        (
            "a path in full paths",
            Box::new(move |at| {
                let path = format!("-{}/{}", 1 + at, &word((1 + at) * 4)[..2]);
                comparison(format!("search={path}&full_path_search=true"), &full_like(&path), 1)
            }),
        ),
    ];
    let head = ["hexad ms", "p99", "again", "p99", "PostgreSQL", "p99", "ratio"];
    println!("{:<28}{}", "", head.map(|text| format!("{text:>10}")).concat());
    let reference = print("hello", &hello, &again);
    println!();
    for (name, comparison) in kinds {
        let comparisons: Vec<Comparison> = (0..REQUESTS).map(comparison).collect();
        let paths: Vec<String> = comparisons.iter().map(|q| path(&format!("namespaces?{}", q.query))).collect();
        let median = print(name, &server, &paths);
        let queries: Vec<String> = comparisons.iter().flat_map(|q| page_sql(&q.condition, q.page)).collect();
        // Once to warm it, once to measure.
        postgres.times(&queries);
        let mut peer: Vec<f64> = postgres.times(&queries).chunks(2).map(|pair| pair.iter().sum()).collect();
        peer.sort_by(f64::total_cmp);
        let at = |share: f64| peer.get((peer.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
        println!("{:>10.2}{:>10.2}{:>10.1}", at(0.5), at(0.99), at(0.5) / median);
        // A few totals are compared, so that both answer the same query.
        for (comparison, path) in comparisons.iter().zip(&paths).step_by(10) {
            let counted: u64 = postgres.sql(&page_sql(&comparison.condition, 1)[1]).trim().parse().expect("a count");
            let total = load::header(&server.url, &request(path), "x-total");
            assert_eq!(total.unwrap_or(counted.to_string()), counted.to_string(), "{}", comparison.query);
        }
    }
    let taken = rows.iter().filter(|row| row.parent.is_none()).take(REQUESTS as usize);
    let single = [
        ("one namespace", (1..=REQUESTS).map(|at| path(&format!("namespaces/{}", at * 7))).collect::<Vec<_>>()),
        ("a free path", (1..=REQUESTS).map(|at| path(&format!("namespaces/free-{at}/exists"))).collect()),
        ("a taken path", taken.map(|row| path(&format!("namespaces/{}/exists", row.path))).collect()),
    ];
    for (name, paths) in single {
        let median = print(name, &server, &paths);
        println!("    {:+.3} ms above hello", median - reference);
    }
    println!("memory of the host: {:.0} MB", server.memory().0 as f64 / 1e6);
}

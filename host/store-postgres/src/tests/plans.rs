//! The server's work for a read: it does not grow with the tables, and it is planned once.

use super::*;

#[tokio::test]
async fn a_read_is_planned_once() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("planned"));
    // Rows and their statistics make a separate plan for each change look cheaper.
    let changes = "insert into hexad.change (xid, store, keys)
                   select n::text::xid8, 'default', array['k' || n] from generate_series(1, 500) n; analyze;";
    server.sql_in("planned", changes);
    let backend = host.store.backend(0);
    for number in 0..20 {
        if let Some(barrier) = backend.catch_up() {
            barrier.await.unwrap();
        }
        backend.get(&key(&format!("k{number}"))).await.unwrap();
        backend.get_many(&[key("a"), key(&number.to_string())], 1000).await.unwrap();
    }
    let link = host.store.shared.supervisor.present_link().unwrap();
    for connection in [link.barrier(), link.reader(0)] {
        let plans = "select coalesce(sum(generic_plans), 0)::int8, coalesce(sum(custom_plans), 0)::int8
                     from pg_prepared_statements where generic_plans + custom_plans > 1";
        let row = connection.client.query_one(plans, &[]).await.unwrap();
        let (generic, custom): (i64, i64) = (row.get(0), row.get(1));
        assert!(generic >= 20 && custom == 0, "{generic} plans for any values, {custom} for certain ones");
    }
}

#[tokio::test]
async fn plans_of_reads_use_the_key_for_empty_and_full_tables() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("found");
    drop(Host::open(&url));
    let statements = [&sql::BARRIER, &sql::GET, &sql::EXISTS, &sql::GET_MANY, &sql::LIST].map(|text| text.as_str());
    let fill = "insert into hexad.kv select 'default', 'k' || n, 'v' from generate_series(1, 20000) n;
                insert into hexad.change (store, keys) select 'default', array['k' || n] from generate_series(1, 20000) n";
    for work in ["", "analyze", fill, "analyze"] {
        server.sql_in("found", &format!("{work};"));
        let client = connect(&url).await;
        client.batch_execute(sql::PLANS).await.unwrap();
        for (number, statement) in statements.iter().enumerate() {
            let parameters = (1..).take_while(|n| statement.contains(&format!("${n}"))).count();
            let values = vec!["null"; parameters].join(", ");
            client.batch_execute(&format!("prepare s{number} as {statement}")).await.unwrap();
            let explain = format!("explain (costs off) execute s{number} ({values})");
            let lines = client.query(&explain, &[]).await.unwrap();
            for line in lines.iter().map(|row| row.get::<_, String>(0)) {
                let looks_through = line.contains("Seq Scan") && !line.contains("Seq Scan on horizon");
                assert!(!looks_through && !line.contains("Bitmap"), "after {work:?}: {line}\n{statement}");
            }
        }
    }
}

#[tokio::test]
async fn a_barrier_without_news_asks_for_the_snapshot_alone_and_misses_none() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("news");
    let (host, other) = (Host::open(&url), Host::open(&url));
    let (backend, writer) = (host.store.backend(0), other.store.backend(0));
    for round in 0..20_u8 {
        write(&*writer, "a", &[round]).await;
        // The first barrier finds the change, and the others find nothing new.
        for _ in 0..5 {
            assert_eq!(read(&*backend, "a").await, Some(vec![round]));
        }
    }
    let link = host.store.shared.supervisor.present_link().unwrap();
    let plans = "select coalesce(sum(generic_plans) filter (where statement = $1), 0)::int8,
                        coalesce(sum(generic_plans) filter (where statement = $2), 0)::int8
                 from pg_prepared_statements";
    let row = link.barrier().client.query_one(plans, &[&sql::SNAPSHOT, &*sql::BARRIER]).await.unwrap();
    let (brief, whole): (i64, i64) = (row.get(0), row.get(1));
    assert!(brief >= 60 && whole >= 20, "{brief} of the snapshot, {whole} of the changes");
}

//! A server on the host's own machine, which is reached through the folder of its socket.

use super::*;

#[tokio::test]
async fn a_server_is_reached_over_its_socket() {
    let Some(server) = start(&[]) else { return };
    server.new_database("near");
    let (folder, port) = (server.folder().display().to_string(), server.port());
    let encoded = folder.replace('/', "%2F");
    for url in [
        format!("postgres://postgres@{encoded}:{port}/near"),
        format!("postgres://postgres@/near?host={folder}&port={port}"),
        format!("postgres:///near?user=postgres&port={port}&host={encoded}"),
        // There is no TLS over a socket.
        format!("postgres://postgres@{encoded}:{port}/near?sslmode=verify-full"),
    ] {
        let host = Host::try_open(&url, &Passwords::default()).unwrap_or_else(|error| panic!("{url}: {error}"));
        let backend = host.store.backend(0);
        write(&*backend, "a", url.as_bytes()).await;
        assert_eq!(read(&*backend, "a").await.unwrap(), url.as_bytes());
    }
    let over_network = "select count(*) from pg_stat_activity where client_addr is not null;";
    assert_eq!(server.sql(over_network).trim(), "0");
}

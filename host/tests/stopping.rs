//! Stops: what is finished, and what load balancers are told.

use std::time::Duration;

use crate::fixture::{self, Server, manifest, store};

#[tokio::test]
async fn what_a_guest_does_after_its_answer_is_waited_for() {
    let server = Server::with("");
    assert_eq!(server.ok("much-later?ms=300").await, "early");
    let Server { host, folder } = server;
    tokio::task::spawn_blocking(move || host.stop(Duration::from_secs(60))).await.unwrap();
    let host = fixture::start(&folder, &manifest(""), &[], store()).unwrap();
    let server = Server { host, folder };
    assert_eq!(server.ok("kv/get?key=probe/v1/late").await, "some written after the answer");
}

#[tokio::test]
async fn a_guest_that_works_on_for_too_long_is_ended() {
    let server = Server::with("");
    assert_eq!(server.ok("much-later?ms=86400000").await, "early");
    let Server { host, folder } = server;
    tokio::task::spawn_blocking(move || host.stop(Duration::from_millis(50))).await.unwrap();
    drop(folder);
}

#[tokio::test]
async fn a_host_that_is_about_to_stop_serves_and_is_not_ready() {
    let mut server = Server::with("");
    let access = server.host.administer("127.0.0.1:0".parse().unwrap(), None).unwrap();
    server.host.drain();
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut ready = agent.get(format!("{}/readyz", access.url)).call().unwrap();
    assert_eq!((ready.status().as_u16(), ready.body_mut().read_to_string().unwrap()), (503, "stopping\n".to_owned()));
    assert_eq!(server.ok("hello").await, "hello");
}

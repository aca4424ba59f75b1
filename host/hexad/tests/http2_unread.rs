//! HTTP/2 clients that do not read their responses.

use crate::http2::get;
use crate::ingress::TlsClient;
use crate::slow_readers::begin_on;
use crate::*;

pub async fn client_without_window(address: SocketAddr) -> SendRequest<Bytes> {
    client_with_window(address, 0).await
}

pub async fn client_with_window(address: SocketAddr, bytes: u32) -> SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::Builder::new().initial_window_size(bytes).handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The head of the response to a GET of the probe.
async fn answer(client: &SendRequest<Bytes>, path: &str) -> Response<h2::RecvStream> {
    client.clone().ready().await.unwrap().send_request(get(path), true).unwrap().0.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_without_a_window_hold_no_instance_and_are_reset() {
    let send = SendLimits { per_connection: 1 << 20, ..SendLimits::default() };
    let drain = DrainPolicy { min_rate: 8 * 1024, period: Duration::from_secs(2) };
    let tool = "instances = 4\nqueue_timeout = \"1h\"";
    let (server, address, ingress) = listen(tool, IngressOptions { send, drain, ..IngressOptions::default() });
    let client = client_without_window(address).await;
    let mut responses = Vec::new();
    for _ in 0..20 {
        let mut client = client.clone().ready().await.unwrap();
        responses.push(client.send_request(get("flood?mib=8"), true).unwrap().0);
    }
    // All of them get an instance in turn, and so does another client.
    tokio::task::spawn_blocking(move || hello(address)).await.unwrap();
    for response in responses {
        // A response whose stream was reset before the client read it has no head.
        if let Ok(response) = response.await {
            let error = response.into_body().data().await.expect("an end").expect_err("the body");
            assert_eq!(error.reason(), Some(h2::Reason::CANCEL), "{error}");
        }
    }
    // The connection is still of use.
    assert_eq!(answer(&client, "hello").await.status(), 200);
    tokio::task::spawn_blocking(move || {
        wait_for_busy(&server, 0);
        wait_until(SOON, "an empty send budget", || ingress.send_budgets.used() == 0);
    })
    .await
    .unwrap();
}

/// Requests 8 MiB with a window of `bytes`, and reads only the response's head.
fn begin_with_window(mut client: TlsClient, bytes: u32) -> TlsClient {
    let window = frame(SETTINGS, 0, 0, &[&[0, 4][..], &bytes.to_be_bytes()].concat());
    let of_connection = frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes());
    let request = frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("flood?mib=8"));
    client.write_all(&[PREFACE, &window, &of_connection, &request].concat()).unwrap();
    while next_frame(&mut client).expect("a response").0 != HEADERS {}
    client
}

#[test]
fn clients_that_take_no_responses_over_tls_keep_no_other_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let root = certificate(folder.path());
    let send = SendLimits { per_connection: 1 << 20, ..SendLimits::default() };
    let options = IngressOptions { send, drain: NO_MINIMUM, ..with_tls(&folder) };
    let (server, address, _) = listen("instances = 4\nqueue_timeout = \"10s\"", options);
    let connect = |protocol| connect_tls(address, &root, protocol).unwrap();
    // Four clients have no window. Four have a large window, but do not read.
    let windows = [0, 1u32 << 30].repeat(4);
    let unread: Vec<_> = windows.into_iter().map(|window| begin_with_window(connect("h2"), window)).collect();
    assert_hello(&rest(begin_on(connect("http/1.1"), "hello")).unwrap());
    drop(unread);
    wait_for_busy(&server, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_takes_no_responses_gets_no_more_of_them() {
    let send = SendLimits { per_connection: 1 << 20, per_address: 4 << 20, total: 64 << 20 };
    let (_server, address, ingress) =
        listen("", IngressOptions { send, drain: NO_MINIMUM, ..IngressOptions::default() });
    let (mut statuses, mut unread) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let client = client_without_window(address).await;
        for _ in 0..8 {
            let response = answer(&client, "flood?mib=1").await;
            statuses.push(response.status().as_u16());
            if response.status() == 503 {
                assert_eq!(response.headers()["retry-after"], "1");
            }
            unread.push(response);
        }
    }
    assert!(statuses.starts_with(&[200; 4]) && statuses.ends_with(&[503; 8]), "{statuses:?}");
    // A response may have begun while the last one arrived in the budget.
    assert!(ingress.send_budgets.used_by("127.0.0.1".parse().unwrap()) <= 10 << 20);
    assert!(ingress.send_budgets.used() <= 4 << 20, "other addresses have the rest of the host's budget");
    drop(unread);
    wait_until_async(SOON, "an empty send budget", async || ingress.send_budgets.used() == 0).await;
    assert_eq!(answer(&client_without_window(address).await, "hello").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_responses_without_a_window_are_reset_as_well() {
    let drain = DrainPolicy { min_rate: 8 * 1024, period: Duration::from_secs(1) };
    let (_server, address, ingress) = listen("", IngressOptions { drain, ..IngressOptions::default() });
    let response = answer(&client_without_window(address).await, "hello").await;
    assert_eq!(response.status(), 200);
    let error = response.into_body().data().await.expect("an end").expect_err("the body");
    assert_eq!(error.reason(), Some(h2::Reason::CANCEL), "{error}");
    assert_eq!(ingress.send_budgets.used(), 0);
}

/// If a response's last frame does not fit into the window, h2 keeps its rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_whose_end_is_not_taken_are_reset_as_well() {
    let drain = DrainPolicy { min_rate: 8 * 1024, period: Duration::from_secs(1) };
    let (_server, address, ingress) = listen("", IngressOptions { drain, ..IngressOptions::default() });
    let client = client_with_window(address, 1).await;
    for path in ["hello", "flood?mib=1"] {
        let response = answer(&client, path).await;
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        assert_eq!(body.data().await.expect("a part").expect("a part").len(), 1, "{path}");
        let error = body.data().await.expect("an end").expect_err("the body");
        assert_eq!(error.reason(), Some(h2::Reason::CANCEL), "{path}: {error}");
    }
    wait_until_async(SOON, "an empty send budget", async || ingress.send_budgets.held() == 0).await;
    // The connection is still of use.
    assert_eq!(answer(&client, "hello").await.status(), 200);
}

/// The bodies are small, but each stream takes memory, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_small_responses_count() {
    let send = SendLimits { per_connection: 64 << 10, per_address: 64 << 10, total: 1 << 30 };
    let (_server, address, ingress) =
        listen("", IngressOptions { send, drain: NO_MINIMUM, ..IngressOptions::default() });
    let (mut statuses, mut unread) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let client = client_without_window(address).await;
        for _ in 0..60 {
            let response = answer(&client, "hello").await;
            statuses.push(response.status().as_u16());
            // A refusal has no body that the client would have to read.
            assert!(response.status() == 200 || response.body().is_end_stream());
            unread.push(response);
        }
    }
    let refused = statuses.iter().position(|status| *status == 503).expect("a refusal");
    assert!((20..=40).contains(&refused) && statuses[refused..].iter().all(|status| *status == 503), "{statuses:?}");
    assert!(ingress.send_budgets.held() <= 3 * (64 << 10), "{}", ingress.send_budgets.held());
    drop(unread);
    wait_until_async(SOON, "an empty send budget", async || ingress.send_budgets.held() == 0).await;
    assert_eq!(answer(&client_without_window(address).await, "hello").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_its_client_resets_gives_its_permit_back() {
    let (server, address, _) = listen("instances = 2\nrequest_timeout = \"1h\"", IngressOptions::default());
    let mut client = client_without_window(address).await.ready().await.unwrap();
    let (response, _) = client.send_request(get("never"), true).unwrap();
    let server = tokio::task::spawn_blocking(move || {
        wait_for_busy(&server, 1);
        server
    });
    let server = server.await.unwrap();
    drop(response);
    tokio::task::spawn_blocking(move || wait_for_busy(&server, 0)).await.unwrap();
}

/// Each reset may end an instance that waits for its client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_of_requests_that_are_served_close_the_connection() {
    let (server, address, _) = listen("", IngressOptions::default());
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, mut connection) = h2::client::handshake(stream).await.unwrap();
    let mut pings = connection.ping_pong().unwrap();
    tokio::spawn(connection);
    let mut served = 0;
    while let Ok(mut client) = client.clone().ready().await
        && let Ok((_response, mut upload)) = client.send_request(get("never"), false)
        // The server has read the request's head when it answers.
        && pings.ping(h2::Ping::opaque()).await.is_ok()
    {
        upload.send_reset(h2::Reason::CANCEL);
        served += 1;
        assert!(served < 1000, "the connection is open");
    }
    assert!(served >= 100, "{served}");
    tokio::task::spawn_blocking(move || {
        wait_for_busy(&server, 0);
        hello(address);
    })
    .await
    .unwrap();
}

/// Ten connections with the maximum of requests, whose client reads nothing.
#[test]
fn connections_full_of_unread_responses_are_seen_by_no_other() {
    let (server, address, ingress) = listen("", IngressOptions { drain: NO_MINIMUM, ..IngressOptions::default() });
    let settings = frame(SETTINGS, 0, 0, &[&[0, 4][..], &0u32.to_be_bytes()].concat());
    let requests: Vec<u8> = (0..100u32)
        .flat_map(|stream| frame(HEADERS, END_STREAM | END_HEADERS, 2 * stream + 1, &head("flood?mib=32")))
        .collect();
    let unread: Vec<_> = (0..10)
        .map(|_| {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(&[PREFACE, &settings, &requests].concat()).unwrap();
            while next_frame(&mut client).expect("a response").0 != HEADERS {}
            client
        })
        .collect();
    // Each request gets an instance in time, and none is refused.
    for _ in 0..3 {
        let others: Vec<_> = (0..8).map(|_| std::thread::spawn(move || hello(address))).collect();
        others.into_iter().for_each(|other| other.join().unwrap());
    }
    assert!(ingress.send_budgets.held() <= 64 << 20, "{}", ingress.send_budgets.held());
    drop(unread);
    wait_for_busy(&server, 0);
}

/// Requests whose bodies do not arrive get no answer, but do not block other clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_full_of_unfinished_uploads_are_seen_by_no_other() {
    let (server, address, _) = listen("", IngressOptions::default());
    let mut unsent = Vec::new();
    for _ in 0..10 {
        let client = client_without_window(address).await;
        for _ in 0..100 {
            let mut client = client.clone().ready().await.unwrap();
            let request = Request::post("http://forge.test/probe/count").header("content-length", "10");
            unsent.push(client.send_request(request.body(()).unwrap(), false).unwrap());
        }
    }
    let server = tokio::task::spawn_blocking(move || {
        wait_for_busy(&server, 80);
        let others: Vec<_> = (0..8).map(|_| std::thread::spawn(move || hello(address))).collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        server
    });
    let server = server.await.unwrap();
    drop(unsent);
    tokio::task::spawn_blocking(move || wait_for_busy(&server, 0)).await.unwrap();
}

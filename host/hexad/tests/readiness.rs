//! The reports of a host that cannot do a part of its work to its operator.

use crate::health::ask;
use crate::*;
use hexad_testing::wait::wait_for;

fn host_status(access: &hexad::admin::AdminAccess) -> Value {
    let status: Value = serde_json::from_str(&ask(access, "/status").1).unwrap();
    status["host"].clone()
}

#[test]
fn certificates_that_cannot_be_read_again_are_reported_until_they_can() {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path());
    let (mut server, _, ingress) = listen("", with_tls(&folder));
    let access = server.administer();
    let is_read = || ask(&access, "/metrics").1.contains("\nhexad_certificates_reload_successful 1.0\n");
    assert!(is_read() && host_status(&access)["certificate_problem"].is_null());

    std::fs::write(folder.path().join("cert.pem"), "no certificate").unwrap();
    ingress.reload();
    let reason = host_status(&access)["certificate_problem"]["reason"].clone();
    assert!(!is_read() && reason.as_str().unwrap().contains("cert.pem"), "{reason}");
    assert_eq!(ask(&access, "/readyz").0, 200, "the old ones serve");

    certificate(folder.path());
    ingress.reload();
    assert!(is_read() && host_status(&access)["certificate_problem"].is_null());
}

#[test]
fn an_expired_certificate_is_reported_until_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path());
    let (mut server, _, ingress) = listen("", with_tls(&folder));
    let access = server.administer();
    let refusal = || host_status(&access)["certificate_refusal"].clone();
    let end = || {
        let metrics = ask(&access, "/metrics").1;
        let mut lines = metrics.lines();
        lines.find_map(|line| line.strip_prefix("hexad_certificate_not_after_seconds ")?.parse::<f64>().ok()).unwrap()
    };
    // The end that `rcgen` sets if the test names none.
    let unlimited = end();
    assert!(refusal().is_null() && unlimited > 4e9, "{unlimited}");

    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(folder.path().join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
    ingress.reload();
    let text = refusal().as_str().unwrap().to_owned();
    assert!(text.contains("for localhost in ") && text.contains("expired at 2020-01-01T00:00:00Z"), "{text}");
    assert_eq!(end(), 1_577_836_800.0);

    certificate(folder.path());
    ingress.reload();
    assert!(refusal().is_null() && end() == unlimited);
}

#[test]
fn a_host_without_its_acceptor_is_not_ready() {
    let mut server = Server::with("");
    let access = server.administer();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (socket, ingress) = (listener.try_clone().unwrap(), Ingress::new(IngressOptions::default()).unwrap());
    let address = server.host.serve(listener, Arc::new(ingress)).unwrap();
    assert_eq!(ask(&access, "/readyz").0, 200);
    socket2::SockRef::from(&socket).shutdown(std::net::Shutdown::Both).unwrap();
    wait_until(SOON, "a host that is not ready", || ask(&access, "/readyz").0 != 200);
    assert_eq!(ask(&access, "/readyz"), (503, "threads ended\n".to_owned()));
    assert_eq!(host_status(&access)["ended_threads"][0], format!("acceptor of {address}"));
    let metrics = ask(&access, "/metrics").1;
    assert!(metrics.contains("\nhexad_ended_threads 1.0\n"), "{metrics}");
    drop(socket);
    TcpStream::connect(address).unwrap_err();
}

#[test]
fn the_address_of_the_admin_listener_is_written_once_there_is_room() {
    let mut server = Server::with("");
    let data = server.folder.path().join("data");
    // A folder, which the host cannot replace by a file.
    let path = data.join("admin.json");
    std::fs::create_dir_all(path.join("in the way")).unwrap();
    let access = server.administer();
    assert_eq!(ask(&access, "/healthz").0, 200);
    std::fs::remove_dir_all(&path).unwrap();
    let found = |data: &Path| hexad::admin::AdminAccess::find(data).ok().map(|access| access.url);
    assert_eq!(wait_for(SOON, "admin.json", || found(&data)), access.url);
    drop(server);
}

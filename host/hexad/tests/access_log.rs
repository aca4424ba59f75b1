//! The access log of a host.

use crate::*;
use hexad::access_log::{AccessLog, AccessLogFormat};

#[test]
fn every_line_has_the_id_of_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::open(path.clone(), AccessLogFormat::Json).unwrap();
    let options = IngressOptions { access_log: Some(log.clone()), ..IngressOptions::default() };
    let (server, address, ingress) = listen("request_timeout = \"1h\"", options);

    let mut gone = wait::connect(address);
    gone.write_all(b"GET /probe/never HTTP/1.1\r\nhost: a\r\nx-request-id: gone\r\n\r\n").unwrap();
    wait_for_busy(&server, 1);
    drop(gone);
    wait_for_busy(&server, 0);

    for id in ["refused", "not harmless"] {
        let mut refused = wait::connect(address);
        let head = format!("x-request-id: {id}\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
        refused.write_all(format!("POST /probe/count HTTP/1.1\r\nhost: a\r\n{head}").as_bytes()).unwrap();
        // The host may close the connection by a reset.
        let answer = String::from_utf8(wait::read_to_close(&mut refused)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert_eq!(answer.contains(&format!("x-request-id: {id}\r\n")), id == "refused", "{answer}");
    }

    let Server { host, folder: _folder } = server;
    host.stop(Duration::ZERO);
    drop((ingress, log));
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<_> = lines.iter().map(|line| (line["status"].as_u64(), line["request_id"].as_str())).collect();
    assert_eq!(ids.len(), 3, "{text}");
    assert!(ids.contains(&(Some(499), Some("gone"))) && ids.contains(&(Some(400), Some("refused"))), "{text}");
    assert!(!ids.iter().any(|(_, id)| id.is_none_or(|id| id == "not harmless")), "{text}");
}

//! Programs of others that speak HTTP, with TLS and without: curl, nghttp2's h2load, wrk and sslscan.

use super::*;
use hexad_tests::server::up;

/// A certificate for the loopback address, in `cert.pem` and `key.pem`.
fn certificate(machine: &Machine) {
    let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
                     -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem";
    machine.run(&machine.folder(""), "openssl", &arguments.split_whitespace().collect::<Vec<_>>()).ok();
}

/// A forge with and without TLS, one after the other, over one data folder.
fn check_both(check: impl Fn(&Machine, &Server)) {
    if !are_enabled() {
        return;
    }
    let machine = Machine::new();
    let data = machine.folder("data");
    let server = Server::start(&data);
    forge::seed(&server);
    check(&machine, &server);
    drop(server);
    check(&machine, &with_tls(&machine));
}

fn with_tls(machine: &Machine) -> Server {
    certificate(machine);
    let data = machine.folder("data");
    let mut command = up(Path::new("spin.toml"), &data);
    command.arg("--tls-cert").arg(machine.folder("").join("cert.pem"));
    command.arg("--tls-key").arg(machine.folder("").join("key.pem"));
    Server::spawn(command, &data)
}

/// The output of a program, which must succeed.
#[track_caller]
fn run(machine: &Machine, program: &str, arguments: &str, url: &str) -> String {
    let arguments: Vec<&str> = arguments.split_whitespace().chain([url]).collect();
    machine.run(&machine.folder(""), program, &arguments).ok()
}

/// The answer to every visitor.
fn project(server: &Server) -> String {
    format!("{}/api/v4/projects/{PUBLIC}", server.url)
}

#[test]
fn curl_speaks_both_versions() {
    check_both(|machine, server| {
        let has_tls = server.url.starts_with("https");
        let second = if has_tls { "--http2" } else { "--http2-prior-knowledge" };
        // curl writes 1.0 as 1.
        for (version, expected) in [("--http1.0", "1:"), ("--http1.1", "1.1:"), (second, "2:")] {
            let arguments =
                format!("{version} --cacert cert.pem --silent --output answer -w %{{http_version}}:%{{response_code}}");
            let printed = run(machine, "curl", &arguments, &project(server));
            assert_eq!(printed, format!("{expected}200"), "{version} {}", server.url);
        }
    });
}

#[test]
fn h2load_gets_every_answer() {
    check_both(|machine, server| {
        for version in ["--h1", "-m 20"] {
            let printed = run(machine, "h2load", &format!("{version} -n 2000 -c 10 -t 1"), &project(server));
            let all = "2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout";
            assert!(printed.contains(all) && printed.contains("2000 2xx"), "{version} {}: {printed}", server.url);
        }
    });
}

#[test]
fn wrk_gets_no_error() {
    check_both(|machine, server| {
        let printed = run(machine, "wrk", "-t 1 -c 10 -d 1s", &project(server));
        assert!(printed.contains("Requests/sec"), "{printed}");
        assert!(!printed.contains("Non-2xx") && !printed.contains("Socket errors"), "{}: {printed}", server.url);
    });
}

#[test]
fn sslscan_finds_no_weakness() {
    if !are_enabled() {
        return;
    }
    let machine = Machine::new();
    let server = with_tls(&machine);
    let address = server.url.trim_start_matches("https://");
    let report = run(&machine, "sslscan", "--no-colour --xml=-", address);
    let enabled: Vec<&str> = report.lines().filter(|line| line.contains("enabled=\"1\"")).map(str::trim).collect();
    let versions =
        ["1.2", "1.3"].map(|version| format!("<protocol type=\"tls\" version=\"{version}\" enabled=\"1\" />"));
    assert_eq!(enabled, versions, "{report}");
    let ciphers: Vec<&str> = report.lines().filter(|line| line.contains("<cipher ")).collect();
    assert!(!ciphers.is_empty(), "{report}");
    for cipher in ciphers {
        // With forward secrecy and authenticated encryption (RFC 9325, section 4.2).
        assert!(["GCM", "CHACHA20"].iter().any(|mode| cipher.contains(mode)), "{cipher}");
        assert!(["ECDHE", "sslversion=\"TLSv1.3\""].iter().any(|kind| cipher.contains(kind)), "{cipher}");
    }
    for weakness in ["<compression supported=\"1\"", "vulnerable=\"1\"", "<renegotiation supported=\"1\" secure=\"0\""]
    {
        assert!(!report.contains(weakness), "{weakness}: {report}");
    }
}

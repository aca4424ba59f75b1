//! A host that has no file descriptor left for the next client.

use crate::ingress::wait_for_idle;
use crate::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;

const HELLO: &[u8] = b"GET /probe/hello HTTP/1.1\r\nhost: a\r\n\r\n";

/// Runs in a process of its own, because it leaves other tests no descriptors.
#[test]
fn an_idle_connection_gives_its_descriptor_to_another_client() {
    const MARK: &str = "HEXAD_TEST_NO_DESCRIPTORS";
    if std::env::var_os(MARK).is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "descriptors::an_idle_connection_gives_its_descriptor_to_another_client", "--nocapture"])
            .env(MARK, "")
            .spawn();
        assert!(wait::exit(SOON, "the process of this test", &mut alone.unwrap()).success());
        return;
    }
    let keep_alive = Duration::from_secs(3600);
    let (_server, address, ingress) = listen("", IngressOptions { keep_alive, ..IngressOptions::default() });
    let mut idle: Vec<_> = (0..2).map(|_| wait::connect(address)).collect();
    for client in &mut idle {
        client.write_all(HELLO).unwrap();
        client.read_exact(&mut [0; 12]).unwrap();
    }
    wait_for_idle(&ingress, 2);

    let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + 16), maximum }).unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    client.connect(&address.into()).unwrap();
    let mut client = wait::with_deadlines(TcpStream::from(client));
    client.write_all(HELLO).unwrap();
    assert_eq!(status_line(&mut client), "HTTP/1.1 200");
    let mut rest = Vec::new();
    idle[0].read_to_end(&mut rest).unwrap();
    drop(taken);
}

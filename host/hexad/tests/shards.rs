//! Connections on the threads of a host.

use crate::*;
use hexad_testing::wait::wait_for_ok;

/// Waits until the threads have these numbers of connections.
fn until_loads(server: &Server, loads: [usize; 2]) {
    wait_for_ok(SOON, "connections on both threads", || match server.host.loads() {
        found if found == loads => Ok(()),
        found => Err(format!("{found:?} instead of {loads:?}")),
    });
}

fn ask(client: &mut TcpStream) {
    client.write_all(b"GET /probe/hello HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert_eq!(status_line(client), "HTTP/1.1 200");
}

#[test]
fn connections_stay_on_the_thread_that_had_the_fewest() {
    let mut server = Server::on_two_threads();
    let address = server.listen();
    let mut clients: Vec<_> = (0..4).map(|_| wait::connect(address)).collect();
    until_loads(&server, [2, 2]);
    clients.iter_mut().for_each(ask);
    assert_eq!(server.host.loads(), [2, 2]);
    // The acceptor has given the connections to the threads in turns.
    drop((clients.remove(2), clients.remove(0)));
    until_loads(&server, [0, 2]);
    let late: Vec<_> = (0..4)
        .map(|_| {
            let mut client = wait::connect(address);
            client.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
            // The length and the type of the host's settings.
            let mut head = [0; 9];
            client.read_exact(&mut head).unwrap();
            assert_eq!(head[3], SETTINGS);
            client
        })
        .collect();
    until_loads(&server, [3, 3]);
    drop((clients, late));
    until_loads(&server, [0, 0]);
}

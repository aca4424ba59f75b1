//! PostgreSQL: a cluster of its own, and as much of its protocol as a count needs.

use crate::*;
use std::cell::RefCell;
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

pub struct Postgres {
    data: PathBuf,
    wire: RefCell<BufReader<UnixStream>>,
}

fn script() -> Command {
    Command::new(root().join("tests/bench/issues/postgres.sh"))
}

impl Postgres {
    /// Starts a cluster below `folder` and loads the issues that were generated there, unless it has them.
    pub fn start(folder: &Path) -> Self {
        let data = folder.join("postgres");
        let started = Instant::now();
        let output = script().arg(folder).arg(&data).stdout(Stdio::null()).status().expect("postgres.sh runs");
        assert!(output.success(), "postgres.sh failed");
        println!("PostgreSQL has its tables and indexes after {:.0} s", started.elapsed().as_secs_f64());
        let wire = UnixStream::connect(data.join(".s.PGSQL.5432")).expect("the socket");
        let postgres = Postgres { data, wire: RefCell::new(BufReader::new(wire)) };
        postgres.greet();
        postgres
    }

    fn greet(&self) {
        let mut message = 196_608_u32.to_be_bytes().to_vec();
        message.extend_from_slice(b"user\0bench\0database\0postgres\0\0");
        let mut wire = self.wire.borrow_mut();
        let length = (message.len() as u32 + 4).to_be_bytes();
        wire.get_mut().write_all(&[&length, message.as_slice()].concat()).expect("written");
        drop(wire);
        self.answer();
    }

    /// The time of a query, and the sum of the counts that it returns.
    pub fn measure(&self, sql: &str) -> (Duration, u64) {
        let started = Instant::now();
        let length = (sql.len() as u32 + 5).to_be_bytes();
        let message = [b"Q", length.as_slice(), sql.as_bytes(), b"\0"].concat();
        self.wire.borrow_mut().get_mut().write_all(&message).expect("written");
        let sum = self.answer();
        (started.elapsed(), sum)
    }

    /// Reads until the server is ready again. Returns the sum of the last columns of all rows.
    fn answer(&self) -> u64 {
        let mut wire = self.wire.borrow_mut();
        let mut sum = 0;
        loop {
            let mut head = [0; 5];
            wire.read_exact(&mut head).expect("a message");
            let [kind, length @ ..] = head;
            let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
            wire.read_exact(&mut body).expect("a whole message");
            match kind {
                b'Z' => return sum,
                b'E' => panic!("{}", String::from_utf8_lossy(&body)),
                b'D' => {
                    let digits = body.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
                    let number = std::str::from_utf8(&body[body.len() - digits..]).expect("digits");
                    sum += number.parse::<u64>().expect("a number");
                }
                _ => {}
            }
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = script().arg("stop").arg(&self.data).status();
    }
}

//! The faults of the server, and of the connections to it.

use std::time::Duration;

use hexad_testing::wait;

use crate::sql;
use crate::tests::{Proxy, Server};

pub const DATABASE: &str = "torture";

/// While the trigger is enabled, the server refuses writes as it does when its disk is full.
pub const FULL_DISK: &str = "
    create function full_disk() returns trigger language plpgsql as 'begin raise disk_full; end';
    create trigger full_disk before insert or update on hexad.kv execute function full_disk();
    alter table hexad.kv disable trigger full_disk;";

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// All processes of the server are killed, and it is started again.
    Crash,
    /// The server stands still for a while.
    Stop,
    /// About one of this many connections ends.
    End(u64),
    /// The network breaks the connections.
    Cut,
    /// The network delivers nothing for a while.
    Stall,
    /// The server refuses writes for a while, as it does when its disk is full.
    NoRoom,
    /// The server's file system is full for a while: the server may also end.
    FullDisk,
    /// The server's clock is an hour ahead when it removes old changes.
    ClockAhead,
    /// The server's clock is set, in seconds from the machine's, and old changes are removed.
    Clock(i64),
}

impl Fault {
    /// The first faults show every defect.
    pub const ALL: [Self; 12] = [
        Self::Crash,
        Self::Stop,
        Self::End(2),
        Self::End(3),
        Self::Cut,
        Self::Stall,
        Self::NoRoom,
        Self::FullDisk,
        Self::ClockAhead,
        Self::Clock(7200),
        Self::Clock(-3600),
        Self::Clock(0),
    ];

    /// Whether this server supports the fault.
    pub fn is_possible(self, server: &Server) -> bool {
        match self {
            Self::FullDisk => server.has_file_system,
            Self::Clock(_) => server.has_clock(),
            _ => true,
        }
    }

    pub fn strike(self, server: &mut Server, proxies: &[Proxy], has_standby: bool, pause: Duration) {
        match self {
            Self::Crash => {
                server.kill();
                server.resume();
                // After a restart, the primary shows commits that had waited for the standby.
                if has_standby {
                    server.wait_for_standby();
                }
            }
            Self::Stop => {
                server.signal_all("STOP");
                wait::pause(pause);
                server.signal_all("CONT");
            }
            Self::End(part) => {
                let end = format!(
                    "select pg_terminate_backend(pid) from pg_stat_activity
                     where application_name = 'hexad' and pid % {part} = 0;"
                );
                drop(server.try_sql_in(DATABASE, &end));
            }
            Self::Cut => proxies.iter().for_each(Proxy::cut),
            Self::Stall => {
                proxies.iter().for_each(|proxy| proxy.stall(true));
                wait::pause(pause);
                proxies.iter().for_each(|proxy| proxy.stall(false));
            }
            Self::NoRoom => {
                for order in ["enable", "disable"] {
                    server.sql_in(DATABASE, &format!("alter table hexad.kv {order} trigger full_disk;"));
                    wait::pause(pause);
                }
            }
            Self::FullDisk => {
                server.fill_disk();
                wait::pause(pause);
                server.free_disk();
                // As after a crash.
                if has_standby {
                    server.wait_for_standby();
                }
            }
            Self::Clock(seconds) => {
                server.set_clock(seconds);
                wait::pause(pause);
                drop(server.try_sql_in(DATABASE, sql::PRUNE));
            }
            Self::ClockAhead => {
                server.sql_in(DATABASE, &sql::PRUNE.replace("now() -", "now() + interval '1 hour' -"));
            }
        }
    }
}

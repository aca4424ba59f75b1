//! The files and sockets that the process may open, and how many of them clients may have.

use anyhow::{Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::host::Options;
use crate::ingress::IngressOptions;

/// Descriptors of the store, the runtimes and the listeners together, and of each thread that serves.
const BASE: u64 = 32;
const OF_A_THREAD: u64 = 6;

/// Connections to PostgreSQL beside the writers and each thread's reader: for barriers, reports and a cancel request.
const OF_POSTGRES: u64 = 4;

/// Descriptors that clients may not have: for 352 connections of the operator's listener, outbound connections of
/// components, and files that are open for a moment, such as a swap's.
const RESERVE: u64 = 384;

/// The reserve is at most one in so many of the descriptors that the host itself leaves.
const RESERVE_SHARE: u64 = 4;

/// Where descriptors bound the connections, an address may have one in so many, so that no client has all of them.
const ADDRESS_SHARE: usize = 4;

/// Raises the process's soft limit to the hard one, and lowers the bounds of connections to what that leaves, so that
/// clients use up no descriptor that the host needs. Fails if a host without clients needs more.
pub fn fit(ingress: &mut IngressOptions, options: &Options) -> Result<()> {
    let Some(limit) = raise_limit() else { return Ok(()) };
    let (threads, needed) = (options.threads, needed(options));
    let Some(most) = most_connections(limit, needed) else {
        bail!(
            "the process may open {limit} files and sockets, and a host with {threads} threads needs at least {needed}, \
             and one more for each connection; raise the limit (`ulimit -n`), or serve with fewer --threads"
        );
    };
    let asked = ingress.connections;
    if lower(ingress, most) {
        tracing::warn!(
            asked,
            connections = ingress.connections,
            connections_per_address = ingress.connections_per_address,
            descriptors = limit,
            "fewer connections than --max-connections: the process may not open more files and sockets; raise its hard \
             limit (`ulimit -Hn`, or `LimitNOFILE` of systemd) to {}, or set --max-connections",
            (asked as u64).saturating_add(needed).saturating_add(RESERVE)
        );
    }
    Ok(())
}

/// Raises the soft limit to the hard one, and returns the one in force; `None` if there is no limit.
fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, ?current, ?maximum, "the limit of files and sockets cannot be raised");
            current
        }
    }
}

/// The descriptors that a host without clients has open.
fn needed(options: &Options) -> u64 {
    let threads = options.threads.get() as u64;
    let postgres = options.postgres.as_ref().map_or(0, |postgres| postgres.writers as u64 + threads + OF_POSTGRES);
    BASE + OF_A_THREAD * threads + postgres
}

/// The connections that a limit leaves to clients; `None` if it leaves none.
fn most_connections(limit: u64, needed: u64) -> Option<usize> {
    let left = limit.checked_sub(needed).filter(|left| *left > 0)?;
    let most = left - RESERVE.min(left / RESERVE_SHARE);
    Some(usize::try_from(most).unwrap_or(usize::MAX))
}

/// Lowers the bounds if there are more connections than `most`, and returns whether it has.
fn lower(ingress: &mut IngressOptions, most: usize) -> bool {
    if ingress.connections <= most {
        return false;
    }
    ingress.connections = most;
    ingress.connections_per_address = ingress.connections_per_address.min((most / ADDRESS_SHARE).max(1));
    true
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Enough for the other tests of this process, and below every usual hard limit.
        let current = Some(maximum.map_or(1000, |maximum| maximum.min(1000)));
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
        assert_eq!(raise_limit(), maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }

    #[test]
    fn clients_leave_descriptors_to_the_host_and_to_each_other() {
        let mut options = Options::new("data");
        options.threads = NonZeroUsize::new(2).unwrap();
        let needed = needed(&options);
        for (limit, fitted) in [
            (20, None),
            (needed, None),
            (needed + 1, Some((1, 1))),
            (64, Some((15, 3))),
            (1024, Some((735, 183))),
            (4096, Some((3668, 917))),
            (65_536, Some((10_000, 1_000))),
        ] {
            let found = most_connections(limit, needed).map(|most| {
                let mut ingress = IngressOptions::default();
                assert_eq!(lower(&mut ingress, most), most < 10_000, "{limit}");
                assert!((ingress.connections as u64) < limit - needed + 1, "{limit}");
                (ingress.connections, ingress.connections_per_address)
            });
            assert_eq!(found, fitted, "{limit}");
        }
    }

    #[test]
    fn bounds_that_fit_stay_as_they_were_asked_for() {
        let mut ingress =
            IngressOptions { connections: 700, connections_per_address: 700, ..IngressOptions::default() };
        assert!(!lower(&mut ingress, 735));
        assert_eq!((ingress.connections, ingress.connections_per_address), (700, 700));
        ingress.connections_per_address = 50;
        assert!(lower(&mut ingress, 400));
        assert_eq!((ingress.connections, ingress.connections_per_address), (400, 50));
    }
}

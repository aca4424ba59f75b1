//! The limit of open files and sockets, and how many of them clients may have.

use anyhow::{Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::admin::ConnectionBounds;
use crate::host::HostOptions;
use crate::ingress::IngressOptions;

/// Descriptors of the store, the runtimes, the listeners and the logs together, and of each thread that serves.
const BASE: u64 = 40;
const OF_A_THREAD: u64 = 6;

/// Images of a component's memory: of the active revision, the previous one, and a canary.
const OF_A_COMPONENT: u64 = 3;

/// Connections to PostgreSQL beside the writers and each thread's reader: for barriers, reports and a cancel request.
const OF_POSTGRES: u64 = 4;

/// Descriptors for neither clients nor operators. Outbound connections of components, connections of the process to
/// itself, and files that are briefly open, such as a swap's, use them.
const OTHERS: u64 = 32;

/// Descriptors that clients may not have: [`OTHERS`], and those of the operator's listener above its least.
const RESERVE: u64 = OTHERS + (ConnectionBounds::MOST.total() - ConnectionBounds::LEAST.total()) as u64;

/// The reserve is at most a quarter of the descriptors that the host itself does not need.
const RESERVE_SHARE: u64 = 4;

/// When descriptors limit the connections, an address may have a quarter of them, so that no client has all.
const ADDRESS_SHARE: usize = 4;

/// The connections that a limit leaves to clients and to operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    clients: usize,
    operators: ConnectionBounds,
}

/// Raises the process's soft limit to the hard one. Lowers the limits of clients' and operators' connections to the
/// rest, so that clients use up no descriptor that the host needs. Fails if a host without clients needs more.
pub fn fit(ingress: &mut IngressOptions, options: &mut HostOptions, components: usize) -> Result<()> {
    let Some(limit) = raise_limit() else { return Ok(()) };
    let (threads, needed) = (options.threads, needed(options, components));
    let Some(division) = divide(limit, needed) else {
        bail!(
            "the process may open {limit} files and sockets, and a host with {threads} threads and {components} \
             components needs at least {needed}, and one more for each connection; raise the limit (`ulimit -n`), or \
             serve with fewer --threads"
        );
    };
    options.admin_connections = division.operators;
    let asked = ingress.connections;
    if lower(ingress, division.clients) {
        tracing::warn!(
            asked,
            connections = ingress.connections,
            connections_per_address = ingress.connections_per_address,
            admin_connections = division.operators.total(),
            descriptors = limit,
            "fewer connections than --max-connections: the process may not open more files and sockets; raise its hard \
             limit (`ulimit -Hn`, or `LimitNOFILE` of systemd) to {}, or set --max-connections",
            (asked as u64).saturating_add(needed).saturating_add(RESERVE)
        );
    }
    Ok(())
}

/// Raises the soft limit to the hard one, and returns the limit in force. `None` if there is no limit.
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

/// The descriptors that a host with `components` components has open without clients, and those of the least
/// connections of operators.
fn needed(options: &HostOptions, components: usize) -> u64 {
    let threads = options.threads.get() as u64;
    let postgres = options.postgres.as_ref().map_or(0, |postgres| postgres.writers as u64 + threads + OF_POSTGRES);
    let of_components = OF_A_COMPONENT * components as u64;
    BASE + OF_A_THREAD * threads + of_components + postgres + ConnectionBounds::LEAST.total() as u64
}

/// Divides the descriptors that a limit leaves. `None` if it leaves none.
fn divide(limit: u64, needed: u64) -> Option<Division> {
    let left = limit.checked_sub(needed).filter(|left| *left > 0)?;
    let reserve = RESERVE.min(left / RESERVE_SHARE);
    let of_operators = reserve - OTHERS.min(reserve.div_ceil(2));
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    Some(Division { clients: count(left - reserve), operators: ConnectionBounds::least_and(count(of_operators)) })
}

/// Lowers the limits if they allow more connections than `most`. Returns whether it has lowered them.
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

    fn options(threads: usize) -> HostOptions {
        HostOptions { threads: NonZeroUsize::new(threads).unwrap(), ..HostOptions::new("data") }
    }

    #[test]
    fn clients_leave_descriptors_to_the_host_and_to_each_other() {
        let needed = needed(&options(2), 8);
        for (limit, fitted) in [
            (64, None),
            (needed, None),
            (needed + 1, Some((1, 1, 12))),
            (128, Some((30, 7, 15))),
            (1024, Some((702, 175, 212))),
            (4096, Some((3636, 909, 352))),
            (65_536, Some((10_000, 1_000, 352))),
        ] {
            let found = divide(limit, needed).map(|division| {
                let mut ingress = IngressOptions::default();
                assert_eq!(lower(&mut ingress, division.clients), division.clients < 10_000, "{limit}");
                (ingress.connections, ingress.connections_per_address, division.operators.total())
            });
            assert_eq!(found, fitted, "{limit}");
        }
    }

    #[test]
    fn the_connections_of_clients_and_operators_fit_into_the_limit() {
        for (threads, components) in [(1, 1), (2, 8), (64, 30)] {
            let needed = needed(&options(threads), components);
            for limit in 0..5000 {
                let Some(Division { clients, operators }) = divide(limit, needed) else { continue };
                let least = ConnectionBounds::LEAST.total();
                let taken = needed + (clients + operators.total() - least) as u64;
                let others = limit.checked_sub(taken).unwrap_or_else(|| panic!("{taken} of {limit}"));
                assert!(clients > 0 && others >= OTHERS.min((limit - needed) / RESERVE_SHARE / 2), "{limit}: {others}");
            }
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

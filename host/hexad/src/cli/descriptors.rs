//! The limit of open files and sockets, and how many of them clients may have.

use anyhow::{Result, bail};
use hexad_admin::ConnectionBounds;
use hexad_host::host::HostOptions;
use hexad_runtime::ingress::IngressOptions;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of the store, the listeners, the logs and an operator's few connections. The rest is for outbound
/// connections, and for files that are briefly open, such as a swap's.
const RESERVE: usize = 64;

/// Descriptors of a thread that serves.
const OF_A_THREAD: usize = 6;

/// Connections to PostgreSQL beside the writers and a reader of each thread: for barriers, reports and a cancel request.
const OF_POSTGRES: usize = 4;

/// Images of a component's memory: of the active revision, the previous one, and a canary.
const OF_A_COMPONENT: usize = 3;

/// The operator's listener may have a quarter of the others. When they limit the connections of clients, an address may
/// have a quarter of these, so that no client has all.
const SHARE: usize = 4;

/// Raises the process's soft limit to the hard one, and divides it.
pub fn fit(ingress: &mut IngressOptions, options: &mut HostOptions, components: usize) -> Result<()> {
    match raise_limit() {
        Some(limit) => divide(usize::try_from(limit).unwrap_or(usize::MAX), ingress, options, components),
        None => Ok(()),
    }
}

/// Lowers the bounds of the connections of operators and clients, so that the host keeps what it needs. Fails if a host
/// without clients needs more than the limit.
fn divide(limit: usize, ingress: &mut IngressOptions, options: &mut HostOptions, components: usize) -> Result<()> {
    let threads = options.threads.get();
    let of_postgres = options.postgres.as_ref().map_or(0, |postgres| postgres.writers + threads + OF_POSTGRES);
    let needed = RESERVE + OF_A_THREAD * threads + OF_A_COMPONENT * components + of_postgres;
    let left = limit.saturating_sub(needed);
    if left == 0 {
        bail!(
            "the process may open {limit} files and sockets, and a host with {threads} threads and {components} \
             components needs at least {needed}, and one more for each connection; raise the limit (`ulimit -n`), or \
             serve with fewer --threads"
        );
    }
    let operators = (left / SHARE).min(ConnectionBounds::MOST.total());
    options.admin_connections = ConnectionBounds::within(operators);
    let (asked, most) = (ingress.connections, left - operators);
    if asked > most {
        ingress.connections = most;
        ingress.connections_per_address = ingress.connections_per_address.min((most / SHARE).max(1));
        tracing::warn!(
            asked,
            connections = most,
            connections_per_address = ingress.connections_per_address,
            admin_connections = options.admin_connections.total(),
            descriptors = limit,
            "fewer connections than --max-connections: the process may not open more files and sockets; raise its hard \
             limit (`ulimit -Hn`, or `LimitNOFILE` of systemd) to {}, or set --max-connections",
            asked.saturating_add(needed + ConnectionBounds::MOST.total())
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

    /// The connections of clients, of one address, and of operators.
    fn divided(limit: usize, threads: usize, components: usize) -> Option<(usize, usize, usize)> {
        let (mut ingress, mut options) = (IngressOptions::default(), options(threads));
        divide(limit, &mut ingress, &mut options, components).ok()?;
        Some((ingress.connections, ingress.connections_per_address, options.admin_connections.total()))
    }

    #[test]
    fn clients_leave_descriptors_to_the_host_and_to_each_other() {
        for (limit, expected) in [
            (64, None),
            (100, None),
            (101, Some((1, 1, 12))),
            (128, Some((21, 5, 12))),
            (1024, Some((693, 173, 231))),
            (4096, Some((3644, 911, 352))),
            (65_536, Some((10_000, 1_000, 352))),
        ] {
            assert_eq!(divided(limit, 2, 8), expected, "{limit}");
        }
    }

    #[test]
    fn the_connections_of_clients_and_operators_fit_into_the_limit() {
        for (threads, components) in [(1, 1), (2, 8), (64, 30)] {
            let needed = RESERVE + OF_A_THREAD * threads + OF_A_COMPONENT * components;
            for limit in 0..5000 {
                let Some((clients, _, operators)) = divided(limit, threads, components) else { continue };
                // The least bounds are a part of the reserve.
                let least = ConnectionBounds::within(0).total();
                assert!(clients > 0 && needed + clients + operators - least <= limit, "{limit}");
            }
        }
    }

    #[test]
    fn bounds_that_fit_stay_as_they_were_asked_for() {
        let divided = |connections, connections_per_address| {
            let mut ingress = IngressOptions { connections, connections_per_address, ..IngressOptions::default() };
            divide(1024, &mut ingress, &mut options(2), 8).unwrap();
            (ingress.connections, ingress.connections_per_address)
        };
        assert_eq!(divided(693, 693), (693, 693));
        assert_eq!(divided(694, 50), (693, 50));
    }
}

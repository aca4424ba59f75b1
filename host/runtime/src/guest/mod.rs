//! The host's state of one instance, and the interfaces that the instance can import.
//!
//! A guest has clocks, randomness, a log for its output, the key-value store within its grants, its variables, and HTTP
//! to the allowed hosts. It has no files, environment, arguments, standard input or sockets.

mod kept_bodies;
mod limiter;
mod outbound;
mod output;
mod side_effects;

use std::sync::Arc;
use std::time::Duration;

use hexad_imports::config;
use hexad_imports::keyvalue::{self, KeyValue, KeyValueView};
use hexad_imports::variables::{self, Variables, VariablesView};
use hexad_limits::concurrency_limit::ClientKey;
use hexad_limits::cpu_scheduler::{SLICE, yield_to_queue};
use hexad_limits::instance_permit::InstancePermit;
use hexad_limits::memory_budget::MemoryBudget;
use hexad_manifest::Limits;
use hexad_store::ServerClock;
use hexad_telemetry::metrics::{CpuTimer, OutOfCpuTime};
pub use hexad_wasi::Guest;
use hexad_wasi::HostState;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime::{Engine, Store, UpdateDeadline};
use wasmtime_wasi::{HostWallClock, WasiCtx};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpHooks};

use crate::request_context::RequestContext;

pub use kept_bodies::KeptBodies;
pub use limiter::MemoryLimiter;
pub use outbound::OutboundHooks;
pub use output::{GuestLog, GuestOutput};
use side_effects::SideEffects;

/// Bytes that a guest may pass in one host call: the largest value, its key, and some more for the other arguments.
/// wasmtime traps a larger call before it copies the arguments.
const MAX_HOSTCALL_BYTES: usize = hexad_store::MAX_VALUE_BYTES + 64 * 1024;

/// The most open handles of an instance, and the most bytes of fields for each: those of the largest head. Only these
/// limits bound the host memory of handles, which is 32 MiB at most. An outbound request has about ten.
const MAX_HANDLES: usize = 512;
const MAX_FIELDS_BYTES: usize = 64 * 1024;

/// The most random bytes of one call, which take about 6 ms. A host call does not yield.
const MAX_RANDOM_BYTES: u64 = 1024 * 1024;

/// The most handles of one instance's components, including calls that have not ended. The host keeps about a kilobyte
/// for each.
const MAX_COMPONENT_HANDLES: usize = 8192;

/// The host's state of one instance, besides WASI's.
pub struct GuestState {
    outbound_hooks: OutboundHooks,
    limiter: MemoryLimiter,
    /// The processor time of the current request.
    cpu_time: Duration,
    /// The client for which a long computation counts: a site of many networks, a network, or a credential.
    client: Option<ClientKey>,
    key_value: KeyValue,
    variables: Arc<Variables>,
    side_effects: SideEffects,
    pub kept_bodies: KeptBodies,
}

/// The limits of an instance.
#[derive(Clone, Copy)]
pub struct GuestBounds<'a> {
    /// The limits of its component.
    pub limits: &'a Limits,
    /// The host's memory budget, which the instances of all components share.
    pub memory: &'a Arc<MemoryBudget>,
}

impl HostState for GuestState {
    fn hooks(&mut self) -> &mut dyn WasiHttpHooks {
        &mut self.outbound_hooks
    }
}

/// Access to the host's state of an instance. Only [`GuestState::store`] makes stores.
pub trait HasGuestState {
    fn state(&self) -> &GuestState;
    fn state_mut(&mut self) -> &mut GuestState;
    fn state_and_table(&mut self) -> (&mut GuestState, &mut ResourceTable);
}

impl HasGuestState for Guest {
    fn state(&self) -> &GuestState {
        self.host().unwrap_or_else(|| unreachable!("a store of another host"))
    }

    fn state_mut(&mut self) -> &mut GuestState {
        self.state_and_table().0
    }

    fn state_and_table(&mut self) -> (&mut GuestState, &mut ResourceTable) {
        self.host_mut().unwrap_or_else(|| unreachable!("a store of another host"))
    }
}

impl GuestState {
    /// Makes the store of one instance within `bounds`. `output` is the guest's standard output and error; `cpu_timer`
    /// measures its processor time.
    pub fn store(
        engine: &Engine,
        key_value: KeyValue,
        variables: Arc<Variables>,
        outbound_hooks: OutboundHooks,
        output: GuestOutput,
        bounds: GuestBounds<'_>,
        cpu_timer: Arc<CpuTimer>,
    ) -> Store<Guest> {
        let GuestBounds { limits, memory } = bounds;
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_HANDLES);
        let side_effects = SideEffects::default();
        let output = output.tracked_by(side_effects.clone());
        let mut wasi = WasiCtx::builder();
        if let Some(clock) = key_value.server_clock() {
            wasi.wall_clock(SharedClock(clock.clone()));
        }
        let wasi = wasi
            .stdout(output.clone())
            .stderr(output)
            .secure_random(side_effects.rng())
            .insecure_random(side_effects.rng())
            .max_random_size(MAX_RANDOM_BYTES)
            .allow_tcp(false)
            .allow_udp(false)
            .build();
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(MAX_FIELDS_BYTES);
        let state = Self {
            outbound_hooks,
            limiter: MemoryLimiter::new(limits.memory, memory.clone(), cpu_timer.counters().clone()),
            cpu_time: limits.request.cpu_time,
            client: None,
            key_value,
            variables,
            side_effects,
            kept_bodies: KeptBodies::new(memory.clone()),
        };
        let mut store = Store::new(engine, Guest::new(table, wasi, http, Box::new(state)));
        store.limiter(|guest| &mut guest.state_mut().limiter);
        store.set_hostcall_fuel(MAX_HOSTCALL_BYTES);
        store.set_max_component_handles(MAX_COMPONENT_HANDLES);
        // A computing guest yields at every epoch tick. After a whole tick it waits for a slice of its shard's time
        // (decision 0021). This callback ends a guest that computes for too long; the request's deadline ends a guest
        // that waits for too long.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |store| {
            cpu_timer.stop();
            let computed = cpu_timer.request_time();
            if computed > store.data().state().cpu_time {
                return Err(OutOfCpuTime.into());
            }
            // Many short requests run when the epoch ticks; they only yield.
            if computed < SLICE {
                return Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())));
            }
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(yield_to_queue(store.data().state().client))))
        });
        store
    }

    /// Begins a request: from now on, the guest's calls belong to it. False if its client has too much memory: then the
    /// caller must not serve the request.
    #[must_use]
    pub fn enter(&mut self, context: &RequestContext, permit: &Arc<InstancePermit>) -> bool {
        self.cpu_time = context.cpu_time();
        let [network, site, credential] = context.client();
        self.client = site.or(network).or(credential);
        let trace = context.trace();
        let (dependencies, work) = (context.dependencies().cloned(), context.work().cloned());
        self.key_value.enter(context.writes.clone(), dependencies, trace.cloned(), work);
        self.outbound_hooks.enter(trace.cloned(), context.client(), context.parent().cloned(), permit);
        self.side_effects.enter(context.dependencies().cloned());
        self.limiter.enter(permit.clone())
    }

    /// Ends the request: the instance is about to be idle.
    pub fn leave(&mut self) {
        self.limiter.leave();
    }

    pub fn limiter(&self) -> &MemoryLimiter {
        &self.limiter
    }
}

/// The linker with all interfaces that a component may import.
pub fn linker(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    hexad_wasi::add_to_linker(&mut linker)?;
    keyvalue::add_to_linker(&mut linker, |guest: &mut Guest| {
        let (state, table) = guest.state_and_table();
        KeyValueView { ctx: &mut state.key_value, table }
    })?;
    variables::add_to_linker(&mut linker, |guest: &mut Guest| VariablesView(&guest.state().variables))?;
    config::add_to_linker(&mut linker, |guest: &mut Guest| guest.state().variables.clone())?;
    Ok(linker)
}

/// The clock of guests whose store several hosts share.
struct SharedClock(Arc<ServerClock>);

impl HostWallClock for SharedClock {
    fn resolution(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn now(&self) -> Duration {
        self.0.now()
    }
}

//! The only module that knows a foreign type: WASI HTTP, key-value, variables, clock and
//! randomness become kit's plain values here, and answers go back.
//!
//! An area's `entry.rs` is this and no more:
//!
//! ```ignore
//! struct Component;
//! kit::wasi::export_http!(Component);
//! kit::wasi::export_area!(Component with_types_in kit::wasi::bindings);
//!
//! impl kit::wasi::Handler for Component {
//!     async fn handle(request: kit::wasi::Incoming) -> kit::wasi::Outcome {
//!         kit::wasi::serve(request, VARIABLES, api::handle).await
//!     }
//! }
//!
//! impl kit::wasi::Area for Component {
//!     fn describe() -> kit::wasi::Description { … }
//!     async fn check() -> Result<(), String> {
//!         kit::wasi::check("some-area/").await
//!     }
//! }
//! ```

mod exchange;
mod key_value;
mod outbound;

use crate::blob::Cache;
use crate::clock::{Clock, Timestamp};
use crate::env::Env;
use crate::id::Entropy;
use crate::memory::Memory;
use crate::outbound::{Client, Nowhere};
use crate::request::Request;
use crate::response::Response;
use crate::store::Store;
use crate::variables::Variables;
use http::Method;
use key_value::KeyValue;
use spin_sdk::wasip3::clocks::system_clock;
use spin_sdk::wasip3::http::types::ErrorCode;
use spin_sdk::wasip3::random::random;
use std::cell::RefCell;
use std::rc::Rc;

/// Bindings of the world `hexad:platform/kit`; the guest SDK binds the rest.
#[allow(warnings, clippy::all, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
pub mod bindings {
    spin_sdk::wit_bindgen::generate!({
        path: [
            "../../wit/deps/io@0.2.6",
            "../../wit/deps/clocks@0.2.6",
            "../../wit/deps/random@0.2.6",
            "../../wit/deps/filesystem@0.2.6",
            "../../wit/deps/sockets@0.2.6",
            "../../wit/deps/cli@0.2.6",
            "../../wit/deps/clocks@0.3.0",
            "../../wit/deps/random@0.3.0",
            "../../wit/deps/filesystem@0.3.0",
            "../../wit/deps/sockets@0.3.0",
            "../../wit/deps/cli@0.3.0",
            "../../wit/deps/http@0.3.0",
            "../../wit/deps/keyvalue@0.2.0-draft2",
            "../../wit/deps/spin-variables@3.0.0",
            "../../wit/platform.wit",
        ],
        world: "hexad:platform/kit@0.1.0",
        runtime_path: "::spin_sdk::wit_bindgen::rt",
        pub_export_macro: true,
        export_macro_name: "export_area",
        default_bindings_module: "kit::wasi::bindings",
        generate_all,
    });
}

pub use outbound::Network;

pub use bindings::export_area;
pub use bindings::exports::hexad::platform::area::{Description, Guest as Area, Storage};
pub use spin_sdk::wasip3;
pub use spin_sdk::wasip3::exports::http::handler::Guest as Handler;
pub use spin_sdk::wasip3::http::service::export as export_http;
pub use spin_sdk::wasip3::http::types::Request as Incoming;

/// What a handler returns to the host.
pub type Outcome = Result<spin_sdk::wasip3::http::types::Response, ErrorCode>;

/// How many bytes of blobs an instance keeps across requests. The largest that are asked for again
/// and again are documents about some thousand things of 2 or 3 KiB each, which must fit in half of
/// it ([`Cache::put`]).
const BLOB_CACHE: usize = 16 << 20;

thread_local! {
    /// What outlives a request. A component has one thread.
    static INSTANCE: RefCell<Option<Instance>> = const { RefCell::new(None) };
}

#[derive(Clone)]
struct Instance {
    store: Rc<dyn Store>,
    blobs: Rc<Cache>,
    memory: Rc<Memory>,
    variables: Rc<Variables>,
    entropy: Rc<dyn Entropy>,
}

/// Answers one request: `handle` gets plain values and gives plain values.
///
/// `variables` are the names of the variables that the component reads; they are read once per
/// instance.
pub async fn serve<F>(request: Incoming, variables: &[&str], handle: F) -> Outcome
where
    F: AsyncFnOnce(Env, Request) -> Response,
{
    serve_with(Rc::new(Nowhere), request, variables, handle).await
}

/// The same for a component that calls other servers: with [`Network`], and only then, a
/// component imports `wasi:http/client`.
pub async fn serve_with<F>(outbound: Rc<dyn Client>, request: Incoming, variables: &[&str], handle: F) -> Outcome
where
    F: AsyncFnOnce(Env, Request) -> Response,
{
    let env = Env { outbound, ..env(variables).await };
    let request = exchange::incoming(request)?;
    let (method, path) = (request.method.clone(), request.path.clone());
    let response = handle(env, request).await;
    if let Some(cause) = &response.cause {
        eprintln!("{} {method} {path}: {cause}", response.status.as_u16());
    }
    exchange::outgoing(response, method == Method::HEAD)
}

/// Whether this component can read its configuration and, below `prefix`, its store.
pub async fn check(prefix: &str) -> Result<(), String> {
    let env = env(&[]).await;
    env.store.exists(&format!("{prefix}check")).map(drop).map_err(|fault| fault.to_string())
}

async fn env(names: &[&str]) -> Env {
    let instance = match INSTANCE.with_borrow(Clone::clone) {
        Some(instance) => instance,
        None => {
            let store = KeyValue::open();
            let usable = store.is_open();
            let instance = Instance {
                store: Rc::new(store),
                blobs: Rc::new(Cache::new(BLOB_CACHE)),
                memory: Rc::default(),
                variables: Rc::new(read_variables(names).await),
                entropy: Rc::new(WasiEntropy),
            };
            // `check` asks for no variables, and a store that could not be opened may be there
            // at the next request.
            if usable && !names.is_empty() {
                INSTANCE.set(Some(instance.clone()));
            }
            instance
        }
    };
    Env {
        store: instance.store,
        blobs: instance.blobs,
        memory: instance.memory,
        variables: instance.variables,
        entropy: instance.entropy,
        outbound: Rc::new(Nowhere),
        clock: Rc::new(SystemClock),
        now: SystemClock.now(),
    }
}

async fn read_variables(names: &[&str]) -> Variables {
    let mut values = Vec::new();
    for name in names {
        // A variable that the manifest does not grant is an absent one.
        if let Ok(value) = bindings::spin::variables::variables::get((*name).to_owned()).await {
            values.push((*name, value));
        }
    }
    values.into_iter().collect()
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let now = system_clock::now();
        Timestamp::from_millis(now.seconds.saturating_mul(1000).saturating_add(i64::from(now.nanoseconds / 1_000_000)))
    }
}

struct WasiEntropy;

impl Entropy for WasiEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        // A host may return fewer bytes than asked for.
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let random = random::get_random_bytes(rest.len() as u64);
            rest.iter_mut().zip(&random).for_each(|(byte, random)| *byte = *random);
            filled += random.len();
        }
    }
}

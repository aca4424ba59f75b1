//! The adapter to WASI, and the only module that uses its types. It converts HTTP, key-value, variables, clock and
//! randomness to kit's plain values and ports.
//!
//! An area's `entry.rs` is one call of [`area!`](crate::area). It declares the area to the host: its handler, the
//! variables that it reads, and the stored formats that it reads and writes.

pub mod bindings;
mod by_value;
mod http;
mod key_value;
mod memcmp;
mod outbound;

use crate::blob::BlobCache;
use crate::clock::{Clock, Timestamp};
use crate::env::Env;
use crate::id::Entropy;
use crate::instance_cache::InstanceCache;
use crate::outbound::Client;
use crate::request::Request;
use crate::response::Response;
use crate::store::{NoStore, Store};
use crate::variables::Variables;
use ::http::{HeaderName, HeaderValue, Method};
use key_value::KeyValue;
use spin_sdk::wasip3::clocks::system_clock;
use spin_sdk::wasip3::random::random;
use std::alloc::System;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

pub use crate::outbound::NoNetwork;
pub use http::HandlerResult;
pub use outbound::Network;

pub use bindings::export_platform;
pub use bindings::exports::hexad::platform::area::{Description, Guest as Area, Storage};
pub use bindings::exports::hexad::platform::by_value_handler::{self, Guest as ByValueHandler};
pub use by_value::{ByValueResult, Exchanges, go_on as go_on_by_value};
pub use spin_sdk::wasip3;
pub use spin_sdk::wasip3::exports::http::handler::Guest as Handler;
pub use spin_sdk::wasip3::http::service::export as export_http;
pub use spin_sdk::wasip3::http::types::{ErrorCode, Request as Incoming};

/// The size of the blob cache, in bytes. The largest blobs that are read repeatedly are documents with some thousand
/// records of 2 to 3 KiB each. Such a document must fit in half of the cache ([`BlobCache::put`]).
const BLOB_CACHE_SIZE: usize = 16 << 20;

/// The default allocator, declared explicitly so that the compiler can inline its calls.
#[global_allocator]
static ALLOCATOR: System = System;

/// The header that tells hexad whether to rate-limit the work of this request. hexad removes it.
const CALLER: HeaderName = HeaderName::from_static("hexad-caller");

thread_local! {
    /// The state that outlives a request. A component has one thread.
    static INSTANCE: RefCell<Option<Instance>> = const { RefCell::new(None) };
}

#[derive(Clone)]
struct Instance {
    store: Rc<dyn Store>,
    blobs: Rc<BlobCache>,
    instance_cache: Rc<InstanceCache>,
    variables: Rc<Variables>,
    entropy: Rc<dyn Entropy>,
}

/// Handles one request.
pub async fn handle<F>(env: Env, request: Incoming, handle: F) -> HandlerResult
where
    F: AsyncFnOnce(Env, Request) -> Response,
{
    let request = http::incoming(request)?;
    let is_head = request.method == Method::HEAD;
    http::outgoing(respond(env, request, handle).await, is_head)
}

/// Begins to handle a request that came by value. `client` chooses the client, and `environment` makes the environment
/// with it. `client` gets the [`Exchanges`] of the request, which only a sequential handler may use.
pub async fn begin_by_value<E, F>(
    request: by_value_handler::Request,
    kept: by_value_handler::KeptBodies,
    client: impl FnOnce(Exchanges) -> Rc<dyn Client>,
    environment: impl FnOnce(Rc<dyn Client>) -> E + 'static,
    handle: F,
) -> ByValueResult
where
    E: Future<Output = Env>,
    F: AsyncFnOnce(Env, Request) -> Response + 'static,
{
    by_value::begin(request, kept, |exchanges, request| {
        let client = client(exchanges);
        async move { respond(environment(client).await, request, handle).await }
    })
    .await
}

async fn respond<F>(env: Env, request: Request, handle: F) -> Response
where
    F: AsyncFnOnce(Env, Request) -> Response,
{
    let (method, path) = (request.method.clone(), request.path.clone());
    let (caller_headers, has_known_caller) = (env.caller_headers.clone(), env.has_known_caller.clone());
    let mut response = handle(env, request).await.with_caller_headers(caller_headers.take());
    let caller = if has_known_caller.get() { "known" } else { "anonymous" };
    response.headers.insert(CALLER, HeaderValue::from_static(caller));
    if let Some(cause) = &response.cause {
        let path = if response.has_secret_path { "(hidden)" } else { &path };
        eprintln!("{} {method} {path}: {cause}", response.status.as_u16());
    }
    response
}

/// Storage that an area owns: only the area writes keys below `prefix`, in this format, and it reads its own records.
pub fn owns(prefix: &str, format: u32) -> Storage {
    Storage { prefix: prefix.to_owned(), reads: vec![format], writes: Some(format) }
}

/// Like [`owns`], with records of earlier formats that the area still reads. It writes the last of `formats`.
pub fn owns_formats(prefix: &str, formats: &[u32]) -> Storage {
    Storage { prefix: prefix.to_owned(), reads: formats.to_vec(), writes: formats.last().copied() }
}

/// Storage that several areas write, in this format. Each area may overwrite the records of the others.
pub fn shares(prefix: &str, format: u32) -> Storage {
    owns(prefix, format)
}

/// Storage of another owner that an area reads, in this format.
pub fn reads(prefix: &str, format: u32) -> Storage {
    reads_formats(prefix, &[format])
}

/// Like [`reads`], in any of these formats.
pub fn reads_formats(prefix: &str, formats: &[u32]) -> Storage {
    Storage { prefix: prefix.to_owned(), reads: formats.to_vec(), writes: None }
}

/// Checks that this component may read every prefix that it declares. The host calls it before it routes requests here.
pub async fn check(storage: &[Storage]) -> Result<(), String> {
    let env = env(Rc::new(NoNetwork), &[]).await;
    storage.iter().try_for_each(|storage| {
        env.store.exists(&format!("{}check", storage.prefix)).map(drop).map_err(|error| error.to_string())
    })
}

/// Declares an area: the exports of its component.
///
/// ```ignore
/// kit::area! {
///     handle: crate::api::handle,
///     variables: crate::api::VARIABLES,
///     storage: [owns("package-registry/", 1), reads("directory/", 1)],
/// }
/// ```
///
/// `network` gives the area outbound HTTP; without it, the component does not import `wasi:http/client`. The value
/// `sequential` lets the host send the first request. It requires a handler that sends its requests one after the other
/// and waits for nothing else meanwhile. Any other handler is `concurrent`. An area with a network and an empty
/// `storage` has no key-value store, and its component imports none. Name and version are the package's.
#[macro_export]
macro_rules! area {
    (handle: $handle:path, variables: $variables:expr, storage: $storage:tt,) => {
        $crate::area!(@storage $storage, concurrent, $crate::wasi::NoNetwork, $variables, $handle);
    };
    (handle: $handle:path, variables: $variables:expr, storage: $storage:tt, network: $network:ident,) => {
        $crate::area!(@storage $storage, $network, $crate::wasi::Network, $variables, $handle);
    };
    (@storage [], $network:ident, $client:expr, $variables:expr, $handle:path) => {
        $crate::area!(
            @exports
            ::std::vec::Vec::new(),
            async { Ok(()) },
            $network,
            $client,
            |client| $crate::wasi::env_without_store(client, $variables),
            $handle
        );
    };
    (@storage [$($storage:expr),+ $(,)?], $network:ident, $client:expr, $variables:expr, $handle:path) => {
        $crate::area!(
            @exports
            {
                use $crate::wasi::{owns, reads, shares};
                vec![$($storage),+]
            },
            $crate::wasi::check(&<Component as $crate::wasi::Area>::describe().storage),
            $network,
            $client,
            |client| $crate::wasi::env(client, $variables),
            $handle
        );
    };
    (@exports $storage:expr, $check:expr, $network:ident, $client:expr, $env:expr, $handle:path) => {
        struct Component;
        $crate::wasi::export_http!(Component with_types_in $crate::wasi::wasip3);
        $crate::wasi::export_platform!(Component with_types_in $crate::wasi::bindings);

        impl $crate::wasi::Handler for Component {
            async fn handle(request: $crate::wasi::Incoming) -> $crate::wasi::HandlerResult {
                $crate::wasi::handle(($env)(::std::rc::Rc::new($client)).await, request, $handle).await
            }
        }

        impl $crate::wasi::ByValueHandler for Component {
            async fn begin(
                request: $crate::wasi::by_value_handler::Request,
                kept: $crate::wasi::by_value_handler::KeptBodies,
            ) -> $crate::wasi::ByValueResult {
                let client = $crate::area!(@client $network, $client);
                $crate::wasi::begin_by_value(request, kept, client, $env, $handle).await
            }

            async fn go_on(
                continuation: u64,
                response: Result<$crate::wasi::by_value_handler::Response, $crate::wasi::ErrorCode>,
            ) -> $crate::wasi::ByValueResult {
                $crate::wasi::go_on_by_value(continuation, response).await
            }
        }

        impl $crate::wasi::Area for Component {
            fn describe() -> $crate::wasi::Description {
                $crate::wasi::Description {
                    area: env!("CARGO_PKG_NAME").into(),
                    version: env!("CARGO_PKG_VERSION").into(),
                    api: "v4".into(),
                    storage: $storage,
                }
            }

            async fn check() -> Result<(), String> {
                $check.await
            }
        }
    };
    (@client concurrent, $client:expr) => {
        |_| -> ::std::rc::Rc<dyn $crate::outbound::Client> { ::std::rc::Rc::new($client) }
    };
    (@client sequential, $client:expr) => {
        |exchanges| -> ::std::rc::Rc<dyn $crate::outbound::Client> { ::std::rc::Rc::new(exchanges) }
    };
}

/// The environment of a request. `variables` are the names of the variables that the component reads, once per
/// instance. Only a component that names [`Network`] imports `wasi:http/client`.
pub async fn env(outbound: Rc<dyn Client>, variables: &[&str]) -> Env {
    environment(outbound, variables, open_store).await
}

/// Like [`env`], for a component without a key-value store. The component does not import one.
pub async fn env_without_store(outbound: Rc<dyn Client>, variables: &[&str]) -> Env {
    environment(outbound, variables, || (Rc::new(NoStore), true)).await
}

/// The granted store, and whether it could be opened.
fn open_store() -> (Rc<dyn Store>, bool) {
    let store = KeyValue::open();
    let is_open = store.is_open();
    (Rc::new(store), is_open)
}

/// `open` is generic, so that a component that never opens a store does not import one.
async fn environment(outbound: Rc<dyn Client>, names: &[&str], open: impl FnOnce() -> (Rc<dyn Store>, bool)) -> Env {
    let instance = match INSTANCE.with_borrow(Clone::clone) {
        Some(instance) => instance,
        None => {
            let (store, is_open) = open();
            let instance = Instance {
                store,
                blobs: Rc::new(BlobCache::new(BLOB_CACHE_SIZE)),
                instance_cache: Rc::default(),
                variables: Rc::new(read_variables(names).await),
                entropy: Rc::new(WasiEntropy),
            };
            // `check` reads no variables, so its instance is not kept. A closed store may open at the next request.
            if is_open && !names.is_empty() {
                INSTANCE.set(Some(instance.clone()));
            }
            instance
        }
    };
    Env {
        store: instance.store,
        blobs: instance.blobs,
        instance_cache: instance.instance_cache,
        snapshot: None,
        variables: instance.variables,
        entropy: instance.entropy,
        outbound,
        has_known_caller: Rc::default(),
        clock: Rc::new(SystemClock),
        now: SystemClock.now(),
        caller_headers: Rc::default(),
    }
}

async fn read_variables(names: &[&str]) -> Variables {
    let mut values = Vec::new();
    for name in names {
        // A variable that the manifest does not grant counts as undefined.
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

    /// The standard library asks the host to wait (`wasi:io/poll`), so other instances run meanwhile.
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
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

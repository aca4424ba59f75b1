//! The state of a guest instance and the interfaces of WASI that it can import.
//!
//! It is a crate of its own, because rustc compiles wasmtime's code for each host function and each type of state. Here
//! WASI's 230 functions are compiled once, not with each change of the host.

use std::any::Any;

use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

/// The host's state of an instance, beside the state of WASI.
pub trait HostState: Any + Send {
    /// Sends the instance's outbound requests.
    fn hooks(&mut self) -> &mut dyn WasiHttpHooks;
}

/// The state of one instance, as the data of its wasmtime store.
pub struct Guest {
    table: ResourceTable,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    host: Box<dyn HostState>,
}

impl Guest {
    pub fn new(table: ResourceTable, wasi: WasiCtx, http: WasiHttpCtx, host: Box<dyn HostState>) -> Self {
        Self { table, wasi, http, host }
    }

    /// The host's state. `None` if the instance was made with a state of another type.
    pub fn host<S: HostState>(&self) -> Option<&S> {
        let host: &dyn Any = &*self.host;
        host.downcast_ref()
    }

    /// The same with the table of the instance's resources.
    pub fn host_mut<S: HostState>(&mut self) -> Option<(&mut S, &mut ResourceTable)> {
        let host: &mut dyn Any = &mut *self.host;
        Some((host.downcast_mut()?, &mut self.table))
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for Guest {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: self.host.hooks() }
    }
}

/// Links all of WASI 0.2, and the part of 0.3 that services use. Files and sockets are linked without any access,
/// because the standard libraries of several languages import them even if a guest does not use them.
pub fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    wasmtime_wasi_http::p3::add_to_linker(linker)?;
    wasmtime_wasi::p3::cli::add_to_linker(linker)?;
    wasmtime_wasi::p3::clocks::add_to_linker(linker)?;
    wasmtime_wasi::p3::random::add_to_linker(linker)
}

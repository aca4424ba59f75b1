//! Bodies that a guest of WASI 0.2 has not finished when its call returns. It has no tasks that outlive the call, so
//! nothing is written to them any more: their readers must not wait for it.

use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::p2::body::{HostOutgoingBody, StreamContext};

/// Marks the bodies as broken off, as dropping them does (`wasi:http/types`, `outgoing-body`). Their readers get what was
/// written, and then an error, once the instance is dropped. Returns whether there are any.
pub fn abort(table: &mut ResourceTable) -> bool {
    let mut has_any = false;
    for body in table.iter_mut().filter_map(|entry| entry.downcast_mut::<HostOutgoingBody>()) {
        let (unread, _) = HostOutgoingBody::new(StreamContext::Response, None, 1, 1);
        std::mem::replace(body, unread).abort();
        has_any = true;
    }
    has_any
}

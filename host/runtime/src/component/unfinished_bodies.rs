//! Bodies that a guest of WASI 0.2 has not finished when its call returns. Such a guest has no tasks after the call, so
//! no further bytes come: readers must not wait for them.

use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::p2::body::{HostOutgoingBody, StreamContext};

/// Marks the bodies as broken off, as dropping them would (`wasi:http/types`, `outgoing-body`). Once the instance is
/// dropped, their readers get the written bytes and then an error. Returns whether the guest had such bodies.
pub fn abort(table: &mut ResourceTable) -> bool {
    let mut has_any = false;
    for body in table.iter_mut().filter_map(|entry| entry.downcast_mut::<HostOutgoingBody>()) {
        let (unread, _) = HostOutgoingBody::new(StreamContext::Response, None, 1, 1);
        std::mem::replace(body, unread).abort();
        has_any = true;
    }
    has_any
}

//! The response cache's part in a request.

use std::time::Instant;

use http::Response;
use http::request::Parts;
use http_body::Body;
use wasmtime_wasi_http::WasiBody;

use super::RequestPipeline;
use crate::nested_request::NestedRequest;
use crate::response_cache::{CachedGuest, Lookup, Miss, Recorder};

impl RequestPipeline<'_> {
    /// Looks the request up in the response cache. `None` if its response may not be cached. After a miss, the request
    /// keeps only the headers that its response may depend on.
    pub fn look_up(&self, parts: &mut Parts, body: &WasiBody, revision: u64) -> Option<Lookup> {
        let settings = &self.deployment.settings;
        let policy = settings.component.cache_policy.as_ref()?;
        // The body of a guest's request ends only after its trailers, which have not come yet.
        let is_empty = body.is_end_stream() || body.size_hint().exact() == Some(0);
        if !is_empty || !policy.applies_to(parts) {
            return None;
        }
        let application = settings.outbound.as_ref().map(|_| self.application.changes());
        let guest = CachedGuest { id: self.service.id(), revision, application };
        let mut lookup = self.application.cache.look_up(guest, policy, parts, self.backend, Instant::now())?;
        match (&mut lookup, self.trace) {
            (Lookup::Miss(_), _) => policy.strip_headers(&mut parts.headers),
            (Lookup::Hit(response, provenance), trace) => {
                if is_nested(parts) {
                    response.extensions_mut().insert(provenance.clone());
                }
                if let Some(trace) = trace {
                    trace.mark_cached();
                }
            }
        }
        Some(lookup)
    }

    /// Begins to record a response. `None` if the cache may not store it, or has it already.
    pub fn record(
        &self,
        miss: Miss,
        response: &mut Response<WasiBody>,
        is_nested: bool,
        is_bodiless: bool,
    ) -> Option<Recorder> {
        let provenance = miss.provenance(response.status(), response.headers())?;
        if is_nested {
            response.extensions_mut().insert(provenance);
        }
        let declared = is_bodiless.then(|| response.body().size_hint());
        self.application.cache.record(miss, response.status(), response.headers(), declared)
    }
}

/// Whether a guest has sent the request. Then its response carries its
/// `Provenance`.
pub fn is_nested(parts: &Parts) -> bool {
    parts.extensions.get::<NestedRequest>().is_some()
}

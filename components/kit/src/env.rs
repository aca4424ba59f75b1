//! The environment of a request: time, randomness, variables and storage, as values and ports.

use crate::blob::BlobCache;
use crate::clock::{Clock, Timestamp};
use crate::id::{self, Entropy};
use crate::instance_cache::InstanceCache;
use crate::outbound::Client;
use crate::request::Request;
use crate::store::{Store, StoreError};
use crate::variables::Variables;
use bytes::Bytes;
use http::HeaderMap;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The variable with the service's base URL as clients see it.
pub const EXTERNAL_URL: &str = "external_url";

/// The environment of one request. Cheap to clone, so that a streamed body can keep it.
#[derive(Clone)]
pub struct Env {
    pub store: Rc<dyn Store>,
    /// Blobs, cached across the requests of this instance.
    pub blobs: Rc<BlobCache>,
    /// Other values, cached across the requests of this instance.
    pub instance_cache: Rc<InstanceCache>,
    /// The instance's snapshot of the store, in an area's own type; `None` if the request reads the store.
    pub snapshot: Option<Rc<dyn Any>>,
    pub variables: Rc<Variables>,
    pub entropy: Rc<dyn Entropy>,
    pub outbound: Rc<dyn Client>,
    /// Whether the request's credential was accepted. The host rate-limits the work of all other requests.
    pub has_known_caller: Rc<Cell<bool>>,
    /// For measuring durations only; rules use `now`.
    pub clock: Rc<dyn Clock>,
    /// The time at which the request began. All its rules use this time.
    pub now: Timestamp,
    /// Headers for the response to the caller, whatever the response is.
    pub caller_headers: Rc<RefCell<HeaderMap>>,
}

impl Env {
    /// A copy with the present time, for the next part of a long request, such as the next batch of an import.
    pub fn with_current_time(&self) -> Env {
        Env { now: self.clock.now(), ..self.clone() }
    }

    /// A new time-ordered id (see [`crate::id`]).
    pub fn id(&self) -> String {
        id::new(self.now, &*self.entropy)
    }

    /// A blob, from the cache or else from the store.
    pub fn blob(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        self.blobs.get(&*self.store, key)
    }

    /// The service's base URL without a trailing slash: the variable `external_url`, or the request's scheme and
    /// authority.
    pub fn external_url(&self, request: &Request) -> String {
        match self.variables.get(EXTERNAL_URL) {
            Some(url) => url.trim().trim_end_matches('/').to_owned(),
            None => [&request.origin.scheme, "://", &request.origin.authority].concat(),
        }
    }
}

//! Everything outside a request that a handler may use, as values and ports.

use crate::blob::BlobCache;
use crate::clock::{Clock, Timestamp};
use crate::id::{self, Entropy};
use crate::instance_cache::InstanceCache;
use crate::outbound::Client;
use crate::request::Request;
use crate::store::{Store, StoreError};
use crate::variables::Variables;
use bytes::Bytes;
use std::rc::Rc;

/// The variable that names the service's address as clients see it.
pub const EXTERNAL_URL: &str = "external_url";

/// The surroundings of one request. Cheap to clone, so that a streamed body can keep it.
#[derive(Clone)]
pub struct Env {
    pub store: Rc<dyn Store>,
    /// Blobs that this instance has read, kept across requests.
    pub blobs: Rc<BlobCache>,
    /// What this instance has made of what it has read, kept across requests.
    pub instance_cache: Rc<InstanceCache>,
    pub variables: Rc<Variables>,
    pub entropy: Rc<dyn Entropy>,
    pub outbound: Rc<dyn Client>,
    /// Only for how long something takes; what is decided is decided at `now`.
    pub clock: Rc<dyn Clock>,
    /// When the request was taken up; the same moment for all of its decisions.
    pub now: Timestamp,
}

impl Env {
    /// The same at this moment: for the next part of a request that takes long (see [`crate::gc`]).
    pub fn later(&self) -> Env {
        Env { now: self.clock.now(), ..self.clone() }
    }

    /// A new time-ordered id (see [`crate::id`]).
    pub fn id(&self) -> String {
        id::new(self.now, &*self.entropy)
    }

    /// An immutable blob, from this instance's cache or else from the store.
    pub fn blob(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        self.blobs.get(&*self.store, key)
    }

    /// The service's address without a trailing slash: the variable `external_url` if it is set,
    /// else the address that this request was sent to.
    pub fn external_url(&self, request: &Request) -> String {
        match self.variables.get(EXTERNAL_URL) {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("{}://{}", request.scheme, request.authority),
        }
    }
}

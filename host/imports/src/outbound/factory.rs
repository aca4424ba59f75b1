//! Makes the outbound HTTP of components.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use hexad_limits::memory_budget::MemoryBudget;
use hexad_support::tls::TlsError;

use super::local::LocalService;
use super::shared_outbound::{OutboundOptions, SharedOutbound};
use super::{AllowedHosts, Outbound, OutboundLimits};

/// Makes the outbound HTTP of a host's components. It reads the system's certificates for the first component that may
/// send requests, and the operator's own immediately.
pub struct OutboundFactory {
    options: OutboundOptions,
    shards: usize,
    memory: Arc<MemoryBudget>,
    network: Mutex<Option<Arc<SharedOutbound>>>,
    /// The application of the components.
    local: OnceLock<Weak<dyn LocalService>>,
}

impl OutboundFactory {
    pub fn new(options: OutboundOptions, shards: usize, memory: Arc<MemoryBudget>) -> Result<Self, TlsError> {
        let factory = Self { options, shards, memory, network: Mutex::default(), local: OnceLock::new() };
        if factory.options.authority.is_some() {
            factory.network()?;
        }
        Ok(factory)
    }

    /// Sets the service that handles requests of components to their own application. Only the first call has an
    /// effect.
    pub fn connect(&self, service: Weak<dyn LocalService>) {
        if let Some(network) = &*self.network.lock().unwrap_or_else(PoisonError::into_inner) {
            network.connect(service.clone());
        }
        let _ = self.local.set(service);
    }

    /// The outbound HTTP of a component; `None` if it may send no requests. `earlier` is the component's present one.
    pub fn make(
        &self,
        component: &str,
        allowed_hosts: &Arc<AllowedHosts>,
        limits: &OutboundLimits,
        earlier: Option<&Arc<Outbound>>,
    ) -> Result<Option<Arc<Outbound>>, TlsError> {
        if **allowed_hosts == AllowedHosts::default() {
            return Ok(None);
        }
        Ok(Some(match earlier {
            Some(earlier) if earlier.is_bounded_by(allowed_hosts, limits) => earlier.clone(),
            Some(earlier) => Arc::new(earlier.with_bounds(allowed_hosts.clone(), limits.clone())),
            None => {
                let (hosts, limits, network) = (allowed_hosts.clone(), limits.clone(), self.network()?);
                Arc::new(Outbound::new(component, hosts, limits, network, self.shards))
            }
        }))
    }

    fn network(&self) -> Result<Arc<SharedOutbound>, TlsError> {
        let mut network = self.network.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match &*network {
            Some(network) => network.clone(),
            None => {
                let made = SharedOutbound::new(&self.options, self.memory.clone())?;
                if let Some(service) = self.local.get() {
                    made.connect(service.clone());
                }
                network.insert(Arc::new(made)).clone()
            }
        })
    }
}

//! The place that routes lead to. What stands in it can be replaced between two requests.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::Generation;
use crate::exchange::Lease;
use crate::manifest::Component;
use crate::outbound::Outbound;
use crate::places::{Busy, Places};

/// Requests that may wait, for each that may run.
const WAITING_PER_INSTANCE: usize = 16;

/// A component's place: its current generation, and the bound on its concurrent requests, which
/// outlives the generations.
pub struct Slot {
    component: Arc<Component>,
    current: ArcSwap<Generation>,
    places: Places,
    outbound: Option<Arc<Outbound>>,
}

impl Slot {
    /// `outbound` is `None` for a component that may reach nobody.
    pub fn new(component: Arc<Component>, generation: Generation, outbound: Option<Arc<Outbound>>) -> Self {
        let limits = &component.limits;
        let places = Places::new(limits.instances, limits.queue_timeout, limits.instances * WAITING_PER_INSTANCE);
        Self { component, current: ArcSwap::from_pointee(generation), places, outbound }
    }

    pub fn component(&self) -> &Arc<Component> {
        &self.component
    }

    /// The component's requests to others.
    pub fn outbound(&self) -> Option<&Arc<Outbound>> {
        self.outbound.as_ref()
    }

    /// The generation that the next request gets.
    pub fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Replaces the generation for all requests that come after; those under way keep theirs.
    /// Returns the one before.
    pub fn replace(&self, next: Arc<Generation>) -> Arc<Generation> {
        self.current.swap(next)
    }

    /// Waits for a place and leases the current generation.
    pub async fn lease(&self) -> Result<(Arc<Generation>, Arc<Lease>), Busy> {
        let place = self.places.take().await?;
        let generation = self.current();
        let lease = Arc::new(Lease::new(place, generation.clone()));
        Ok((generation, lease))
    }
}

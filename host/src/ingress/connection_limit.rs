//! How many connections there are, and how many of them from one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The connections of a listener.
#[derive(Debug)]
pub struct Crowd {
    free: Arc<Semaphore>,
    per_address: usize,
    addresses: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection's place among those of its address.
#[derive(Debug)]
pub struct Place {
    crowd: Arc<Crowd>,
    address: IpAddr,
}

impl Crowd {
    pub fn new(total: usize, per_address: usize) -> Self {
        let free = Arc::new(Semaphore::new(total.min(Semaphore::MAX_PERMITS)));
        Self { free, per_address, addresses: Mutex::default() }
    }

    /// Waits until there may be one more connection; until then they wait in the kernel.
    pub async fn admit(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().acquire_owned().await.ok()
    }

    /// A place for a connection from `address`, if it has not too many already.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = neighbourhood(address);
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let count = addresses.entry(address).or_default();
        if *count >= self.per_address {
            return None;
        }
        *count += 1;
        Some(Place { crowd: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut addresses = self.crowd.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

/// What one client has: an IPv4 address, or a /64 of IPv6, which is what networks give to one.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_gives_them_back() {
        let crowd = Arc::new(Crowd::new(10, 2));
        let enter = |address: &str| crowd.enter(address.parse().unwrap());
        let first = enter("192.0.2.1").unwrap();
        let _second = enter("::ffff:192.0.2.1").unwrap();
        assert!(enter("192.0.2.1").is_none());
        let _other = enter("192.0.2.2").unwrap();
        drop(first);
        assert!(enter("192.0.2.1").is_some());
        let _places = (enter("2001:db8::1").unwrap(), enter("2001:db8::ffff:1").unwrap());
        assert!(enter("2001:db8::2").is_none());
        assert!(enter("2001:db8:0:1::2").is_some());
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let crowd = Arc::new(Crowd::new(10, 2));
        drop(crowd.enter("192.0.2.1".parse().unwrap()));
        assert!(crowd.addresses.lock().unwrap().is_empty());
    }
}

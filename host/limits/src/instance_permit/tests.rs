use std::future::Future;

use futures::{FutureExt, poll};

use super::*;
use crate::concurrency_limit::ConcurrencyLimit;

const CLIENT: ClientKeys = [Some(ClientKey::Credential(1)), None, None];
const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for the effects of a report or two.
const FOR_A_WHILE: Duration = Duration::from_millis(400);

/// A component, and the stalled permits of its host.
struct Component {
    limit: ConcurrencyLimit,
    stalled: Arc<StalledInstances>,
    memory: Arc<MemoryBudget>,
}

impl Component {
    fn new(permits: usize, yielded_permits: usize) -> Self {
        let limit = ConcurrencyLimit::new(permits, PATIENCE, 100);
        let memory = MemoryBudget::new(100);
        let stalled = StalledInstances::new(StalledPermits::new(yielded_permits), memory.clone());
        Self { limit, stalled, memory }
    }

    fn begin(&self) -> Arc<InstancePermit> {
        let permit = self.limit.try_acquire(CLIENT).unwrap();
        Arc::new(InstancePermit::new(permit, CLIENT, self.stalled.clone()))
    }

    /// The permit of another request, if the instance yields its permit in time.
    async fn serve_another(&self, yield_permit: impl Future<Output = ()>, patience: Duration) -> Option<Permit> {
        tokio::select! {
            () = yield_permit => None,
            permit = tokio::time::timeout(patience, self.limit.acquire(CLIENT)) => permit.ok()?.ok(),
        }
    }
}

#[tokio::test]
async fn an_instance_makes_way_once_another_request_waits() {
    let component = Component::new(1, 2);
    let instance = component.begin();
    let mut yield_permit = pin!(instance.yield_permit(Duration::ZERO));
    assert!(tokio::time::timeout(FOR_A_WHILE, &mut yield_permit).await.is_err());
    assert_eq!((component.limit.taken(), component.stalled.count()), (1, 0));
    let other = component.serve_another(&mut yield_permit, PATIENCE).await.unwrap();
    assert_eq!((component.limit.taken(), component.stalled.count()), (1, 1));
    // It counts again as soon as the limit has a permit.
    instance.try_resume();
    assert_eq!(component.stalled.count(), 1);
    drop(other);
    instance.try_resume();
    assert_eq!((component.limit.taken(), component.stalled.count()), (1, 0));
    drop(component.serve_another(&mut yield_permit, PATIENCE).await.unwrap());
    instance.release();
    assert_eq!((component.limit.taken(), component.stalled.count()), (0, 0));
}

#[tokio::test]
async fn an_instance_with_an_outbound_request_keeps_its_permit() {
    let component = Component::new(1, 2);
    let instance = component.begin();
    let outbound = instance.begin_outbound(PATIENCE).await.unwrap();
    let mut yield_permit = pin!(instance.yield_permit(Duration::ZERO));
    assert!(component.serve_another(&mut yield_permit, FOR_A_WHILE).await.is_none());
    assert!(!instance.try_yield_permit());
    drop(outbound);
    // A stalled instance waits for a permit first.
    let other = component.serve_another(instance.yield_permit(Duration::ZERO), PATIENCE).await.unwrap();
    assert!(instance.begin_outbound(FOR_A_WHILE).await.is_none());
    let mut begins = pin!(instance.begin_outbound(PATIENCE));
    assert!(poll!(&mut begins).is_pending());
    drop(other);
    // One permit suffices for all of its requests.
    let (first, second) = tokio::join!(begins, instance.begin_outbound(PATIENCE));
    assert!(first.is_some() && second.is_some());
    assert_eq!((component.limit.taken(), component.stalled.count()), (1, 0));
}

#[tokio::test]
async fn no_instance_makes_way_without_memory_or_a_permit() {
    let component = Component::new(1, 2);
    let instance = component.begin();
    assert!(component.memory.take(100));
    assert!(component.serve_another(instance.yield_permit(Duration::ZERO), FOR_A_WHILE).await.is_none());
    component.memory.give_back(100);

    let yielded_permits = [(); 2].map(|()| component.stalled.yielded_permits.try_take(CLIENT).unwrap());
    assert!(component.serve_another(instance.yield_permit(Duration::ZERO), FOR_A_WHILE).await.is_none());
    assert!(!instance.try_yield_permit());
    drop(yielded_permits);
    assert!(component.serve_another(instance.yield_permit(Duration::ZERO), PATIENCE).await.is_some());
}

#[tokio::test]
async fn only_an_instance_that_waits_for_its_client_makes_way() {
    let component = Component::new(1, 2);
    let instance = component.begin();
    assert!(!instance.try_yield_permit());
    {
        let mut yield_permit = pin!(instance.yield_permit(Duration::ZERO));
        assert!(poll!(&mut yield_permit).is_pending());
        let yielded_permits = [(); 2].map(|()| component.stalled.yielded_permits.try_take(CLIENT).unwrap());
        assert!(!instance.try_yield_permit());
        drop(yielded_permits);
        assert!(instance.try_yield_permit() && !instance.try_yield_permit());
    }
    assert_eq!((component.limit.taken(), component.stalled.count()), (0, 1));
}

#[tokio::test]
async fn the_client_that_has_the_most_instances_loses_one_for_another_client() {
    let component = Component::new(1, 1);
    let first = component.begin();
    let permit = component.serve_another(first.yield_permit(Duration::ZERO), PATIENCE).await.unwrap();
    let second = InstancePermit::new(permit, CLIENT, component.stalled.clone());
    // No other stalled permit is free, and the waiting request is the client's own.
    assert!(component.serve_another(second.yield_permit(Duration::ZERO), FOR_A_WHILE).await.is_none());

    let mut first_waits = pin!(first.yield_permit(Duration::ZERO));
    assert!(poll!(&mut first_waits).is_pending());
    let [other, another] = [2, 3].map(|number| [Some(ClientKey::Credential(number)), None, None]);
    tokio::select! {
        () = second.yield_permit(Duration::ZERO) => {}
        _ = component.limit.acquire(other) => panic!("it is not free yet"),
    }
    second.release();

    let permit = component.limit.try_acquire(other).unwrap();
    let third = InstancePermit::new(permit, other, component.stalled.clone());
    tokio::select! {
        () = first_waits => {}
        () = third.yield_permit(Duration::ZERO) => panic!("its client has no other instance"),
        _ = component.limit.acquire(another) => panic!("the permit is not free yet"),
    }
    first.release();
    tokio::select! {
        () = third.yield_permit(Duration::ZERO) => panic!("there is a permit"),
        permit = component.limit.acquire(another) => drop(permit.unwrap()),
    }
    assert_eq!(component.stalled.count(), 1);
}

fn client(last: u8) -> ClientKeys {
    [Some(ClientKey::Network([192, 0, 2, last].into())), None, None]
}

#[test]
fn the_client_that_has_the_most_permits_gives_one_up() {
    let permits = StalledPermits::new(4);
    let [first, second, other, working] = [1, 1, 2, 1].map(|last| permits.try_take(client(last)).unwrap());
    assert!(permits.try_take(client(3)).is_none());
    assert!(!permits.end_one_for(client(3)), "none of them waits for its client");
    let mut waits = [&second, &first, &other].map(|permit| permits.begin_wait(permit.number));
    assert!(!permits.end_one_for(client(1)), "no other client has more");
    let mut ended = || waits.each_mut().map(|wait| wait.ended().now_or_never().is_some());
    assert!(permits.end_one_for(client(2)));
    assert_eq!(ended(), [true, false, false], "the one that has waited for longest");
    assert!(permits.end_one_for(client(3)));
    assert_eq!(permits.taken(), 4, "until it has ended");
    drop(second);
    assert!(permits.take(client(3)).now_or_never().is_some());
    drop((waits, working));
    assert!(!permits.end_one_for(client(4)), "they do not wait any more");
}

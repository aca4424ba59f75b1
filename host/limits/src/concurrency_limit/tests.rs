use std::pin::Pin;
use std::task::Poll;

use futures::poll;

use super::*;

mod random;

const LONG: Duration = Duration::from_secs(3600);

fn client(address: u8, credential: Option<u64>) -> ClientKeys {
    client_keys(Some([192, 0, 2, address].into()), credential)
}

#[tokio::test]
async fn callers_wait_for_a_permit_in_a_bounded_queue() {
    let limit = ConcurrencyLimit::new(1, LONG, 1);
    let first = limit.acquire(HOST).await.unwrap();
    // One caller may wait, and gets the permit; the next is refused at once.
    let (second, third) = tokio::join!(limit.acquire(HOST), async {
        let third = limit.acquire(HOST).await;
        drop(first);
        third
    });
    third.unwrap_err();
    drop(second.unwrap());
    assert_eq!(limit.available(), 1);
}

#[tokio::test]
async fn a_wait_ends_and_makes_room_for_another() {
    let limit = ConcurrencyLimit::new(1, Duration::from_millis(1), 1);
    let _permit = limit.acquire(HOST).await.unwrap();
    for _ in 0..2 {
        limit.acquire(HOST).await.map(drop).unwrap_err();
        assert_eq!(limit.waiting(), 0);
    }
}

#[tokio::test]
async fn an_address_and_a_credential_have_a_share_each() {
    let limit = ConcurrencyLimit::new(4, Duration::from_millis(1), 100).with_share(2);
    let first = limit.acquire(client(1, Some(1))).await.unwrap();
    let second = limit.acquire(client(1, Some(2))).await.unwrap();
    limit.acquire(client(1, Some(3))).await.map(drop).unwrap_err();
    let third = limit.acquire(client(2, Some(1))).await.unwrap();
    limit.acquire(client(3, Some(1))).await.map(drop).unwrap_err();
    // A refused caller keeps no permit.
    assert_eq!(limit.available(), 1);
    drop(second);
    drop(limit.acquire(client(1, None)).await.unwrap());
    drop((first, third));
    assert_eq!(limit.available(), 4);
    assert!(limit.acquire(HOST).await.is_ok());
}

#[tokio::test]
async fn a_client_has_a_share_of_the_queue() {
    let limit = ConcurrencyLimit::new(2, LONG, 4).with_share(1);
    let _first = limit.acquire(client(1, None)).await.unwrap();
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(limit.acquire(client(1, None)))).collect();
    for caller in &mut waiting {
        assert!(poll!(caller).is_pending());
    }
    limit.acquire(client(1, None)).await.map(drop).unwrap_err();
    // Another client need not wait for the callers of the first.
    let _second = limit.acquire(client(2, None)).await.unwrap();
    drop(waiting);
    assert_eq!(limit.waiting(), 0);
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_its_part_of_the_permits() {
    let limit = ConcurrencyLimit::new(1, LONG, 4).with_share(1);
    let first = limit.acquire(HOST).await.unwrap();
    let mut waiting = Box::pin(limit.acquire(client(1, None)));
    assert!(poll!(&mut waiting).is_pending());
    drop(waiting);
    drop(first);
    drop(limit.acquire(client(1, None)).await.unwrap());
}

#[tokio::test]
async fn a_holder_sees_that_others_wait_for_it() {
    let limit = ConcurrencyLimit::new(2, LONG, 4).with_share(1);
    let first = limit.acquire(client(1, None)).await.unwrap();
    let second = limit.acquire(client(2, None)).await.unwrap();
    let mut unaffected = Box::pin(second.wait_queue().wait());
    let wait_queue = first.wait_queue();
    let (waiter, ()) = tokio::join!(limit.acquire(client(1, None)), async {
        wait_queue.wait().await;
        // The other client's permit would not help.
        assert!(poll!(&mut unaffected).is_pending());
        drop(first);
    });
    waiter.unwrap();
}

type Caller<'a> = Pin<Box<dyn Future<Output = Result<Permit, Saturated>> + 'a>>;

async fn waiting(limit: &ConcurrencyLimit, client: ClientKeys) -> Caller<'_> {
    let mut caller: Caller<'_> = Box::pin(limit.acquire(client));
    assert!(poll!(&mut caller).is_pending());
    caller
}

/// Gives back each permit at once, and returns the order in which callers got them.
async fn order(callers: &mut Vec<(&'static str, Caller<'_>)>) -> Vec<&'static str> {
    let mut order = Vec::new();
    while !callers.is_empty() {
        let before = order.len();
        let mut at = 0;
        while let Some((name, caller)) = callers.get_mut(at) {
            match poll!(caller) {
                Poll::Ready(permit) => {
                    order.push(*name);
                    drop((permit.unwrap(), callers.remove(at)));
                }
                Poll::Pending => at += 1,
            }
        }
        assert_ne!(order.len(), before, "a caller is forgotten");
    }
    order
}

#[tokio::test]
async fn a_client_without_permits_is_served_before_clients_that_hold_some() {
    let limit = ConcurrencyLimit::new(16, LONG, 1024).with_share(8);
    let greedy: Vec<_> = (1..=8).map(|address| client(address, None)).collect();
    let mut held: Vec<_> = (0..16).map(|n| limit.try_acquire(greedy[n % 8]).unwrap()).collect();
    let mut queue = Vec::new();
    for keys in &greedy {
        for _ in 0..8 {
            queue.push(waiting(&limit, *keys).await);
        }
    }
    let mut innocent = waiting(&limit, client(9, None)).await;
    held.pop();
    let served = poll!(&mut innocent);
    assert!(matches!(served, Poll::Ready(Ok(_))));
    for caller in &mut queue {
        assert!(poll!(caller).is_pending());
    }
}

#[tokio::test]
async fn greedy_clients_leave_permits_for_the_next_client() {
    // With three clients, the first takes one more while each has as many as are free.
    for (clients, first, others, free) in [(1, 32, 0, 32), (3, 17, 16, 15), (15, 5, 4, 3), (31, 3, 2, 1)] {
        let limit = ConcurrencyLimit::new(64, LONG, usize::MAX).with_share(32);
        let mut held: Vec<_> = (0..64).map(|_| limit.try_acquire(HOST).unwrap()).collect();
        let mut waiting_for_more = Vec::new();
        for _ in 0..64 {
            for address in 0..clients {
                waiting_for_more.push((address, waiting(&limit, client(address, None)).await));
            }
        }
        held.clear();
        let mut counts = vec![0; clients.into()];
        for (address, caller) in &mut waiting_for_more {
            // Otherwise tokio lets a task of many polls wait for the next turn.
            if let Poll::Ready(permit) = poll!(tokio::task::unconstrained(caller)) {
                held.push(permit.unwrap());
                counts[usize::from(*address)] += 1;
            }
        }
        assert!(counts[0] == first && counts[1..].iter().all(|count| *count == others), "{counts:?}");
        assert_eq!(limit.available(), free);
        // A later caller gets its permit at once.
        drop(limit.try_acquire(client(99, None)).unwrap());
    }
}

#[tokio::test]
async fn a_caller_gets_its_permit_once_enough_are_free() {
    let limit = ConcurrencyLimit::new(6, LONG, 64).with_share(4);
    let mut others: Vec<_> = (1..4).map(|address| limit.try_acquire(client(address, None)).unwrap()).collect();
    let _first = limit.try_acquire(client(9, None)).unwrap();
    let _second = limit.try_acquire(client(9, None)).unwrap();
    let mut third = waiting(&limit, client(9, None)).await;
    assert_eq!(limit.available(), 1);
    others.pop();
    assert!(poll!(&mut third).is_ready());
}

#[tokio::test]
async fn the_networks_of_one_site_have_a_share_together() {
    let limit = ConcurrencyLimit::new(8, LONG, 64).with_share(3);
    let network = |network: u16| client_keys(Some([0x2001, 0xdb8, 1, network, 0, 0, 0, 0].into()), None);
    let _held: Vec<_> = (0..3).map(|n| limit.try_acquire(network(n)).unwrap()).collect();
    assert!(limit.try_acquire(network(3)).is_none());
    let other_site = client_keys(Some([0x2001, 0xdb8, 2, 0, 0, 0, 0, 0].into()), None);
    assert!(limit.try_acquire(other_site).is_some());
}

#[tokio::test]
async fn a_credential_with_many_addresses_is_one_client() {
    let limit = ConcurrencyLimit::new(4, LONG, 64).with_share(3);
    let mut held: Vec<_> = (1..4).map(|address| limit.try_acquire(client(address, Some(1))).unwrap()).collect();
    let other = limit.try_acquire(client(9, None)).unwrap();
    let mut of_credential = waiting(&limit, client(4, Some(1))).await;
    let mut of_other = waiting(&limit, client(9, None)).await;
    drop(held.pop());
    assert!(poll!(&mut of_credential).is_pending());
    let Poll::Ready(of_other) = poll!(&mut of_other) else { panic!("it has fewer") };
    drop((of_other, other));
    assert!(poll!(&mut of_credential).is_ready());
}

#[tokio::test]
async fn clients_take_turns_and_the_callers_of_one_are_served_as_they_came() {
    let limit = ConcurrencyLimit::new(1, LONG, 64);
    let first = limit.try_acquire(HOST).unwrap();
    let mut callers = Vec::new();
    for (name, address) in [("a1", 1), ("a2", 1), ("a3", 1), ("b1", 2), ("b2", 2), ("c1", 3)] {
        callers.push((name, waiting(&limit, client(address, None)).await));
    }
    callers.push(("host", waiting(&limit, HOST).await));
    drop(first);
    // The callers are polled in this order, beginning with the first that has a permit.
    callers.sort_by_key(|(name, _)| ["a1", "b1", "c1", "host", "a2", "b2", "a3"].iter().position(|n| n == name));
    assert_eq!(order(&mut callers).await, ["a1", "b1", "c1", "host", "a2", "b2", "a3"]);
    assert_eq!((limit.available(), limit.waiting()), (1, 0));
}

#[tokio::test]
async fn a_caller_whose_client_has_its_share_keeps_no_other_waiting() {
    let limit = ConcurrencyLimit::new(3, LONG, 64).with_share(1);
    let first = limit.try_acquire(client(1, Some(1))).unwrap();
    let mut of_address = waiting(&limit, client(1, Some(2))).await;
    let mut of_credential = waiting(&limit, client(2, Some(1))).await;
    drop(limit.try_acquire(client(3, None)).unwrap());
    drop(first);
    assert!(poll!(&mut of_address).is_ready() && poll!(&mut of_credential).is_ready());
}

#[tokio::test]
async fn a_caller_that_gives_up_with_a_permit_hands_it_on() {
    let limit = ConcurrencyLimit::new(1, LONG, 64);
    let first = limit.try_acquire(HOST).unwrap();
    let gives_up = waiting(&limit, client(1, None)).await;
    let mut next = waiting(&limit, client(2, None)).await;
    // From here on the caller has the permit and does not know it.
    drop(first);
    assert!(poll!(&mut next).is_pending());
    drop(gives_up);
    assert!(poll!(&mut next).is_ready());
}

#[tokio::test]
async fn clients_with_few_callers_find_room_in_a_full_queue() {
    let limit = ConcurrencyLimit::new(2, LONG, 8).with_share(1);
    let held = [client(1, None), client(2, None)].map(|keys| limit.try_acquire(keys).unwrap());
    let mut queue = Vec::new();
    for n in 0..8 {
        queue.push(waiting(&limit, client(1 + n % 2, None)).await);
    }
    limit.acquire(client(1, None)).await.map(drop).unwrap_err();
    let _innocent = waiting(&limit, client(3, None)).await;
    assert_eq!(limit.waiting(), 8);
    // The newest caller of the client with the most has left.
    let mut refused = Vec::new();
    for (n, caller) in queue.iter_mut().enumerate() {
        if let Poll::Ready(result) = poll!(caller) {
            result.map(drop).unwrap_err();
            refused.push(n);
        }
    }
    assert_eq!(refused, [7]);
    // A caller that waits for its yielded permit does not leave.
    drop(queue);
    let mut resumes = Vec::new();
    for _ in 0..8 {
        let mut resumed = Box::pin(held[0].wait_queue().acquire());
        assert!(poll!(&mut resumed).is_pending());
        resumes.push(resumed);
    }
    limit.acquire(client(4, None)).await.map(drop).unwrap_err();
    for resumed in &mut resumes {
        assert!(poll!(resumed).is_pending());
    }
}

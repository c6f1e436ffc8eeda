//! The order and timing of connection attempts: one after another, or overlapping as in RFC 8305.

use crate::time::{Sleep, sleep};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Interleaves the two address families after the first `first_family_count - 1` addresses, as asyncio does. Zero keeps
/// the order.
pub(in crate::net) fn interleave(addresses: Vec<SocketAddr>, first_family_count: usize) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().copied().filter(|_| first_family_count > 0) else { return addresses };
    let (mut same, mut other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv4() == first.is_ipv4());
    let mut rest = same.split_off((first_family_count - 1).min(same.len()));
    let mut ordered = same;
    let longer = rest.len().max(other.len());
    let (mut rest, mut other) = (rest.drain(..), other.drain(..));
    for _ in 0..longer {
        ordered.extend(rest.next());
        ordered.extend(other.next());
    }
    ordered
}

/// Returns the first success of `attempts`, or all errors in the order of the attempts. The next attempt starts when
/// the latest one fails, or `delay` after it started. The losing attempts are dropped.
pub(in crate::net) async fn race<F, T, E>(attempts: Vec<F>, delay: Option<Duration>) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut race = Race { running: Vec::new(), errors: Vec::new(), next: None, delay };
    let mut remaining = attempts.into_iter();
    race.errors.resize_with(remaining.len(), || None);
    race.start(remaining.next());
    poll_fn(|cx| race.poll(cx, &mut remaining)).await
}

struct Race<F, E> {
    running: Vec<(usize, Pin<Box<F>>)>,
    /// Indexed by the number of the attempt.
    errors: Vec<Option<E>>,
    /// Deadline for starting the next attempt.
    next: Option<Pin<Box<Sleep>>>,
    delay: Option<Duration>,
}

impl<F, T, E> Race<F, E>
where
    F: Future<Output = Result<T, E>>,
{
    fn start(&mut self, attempt: Option<F>) {
        let Some(attempt) = attempt else {
            self.next = None;
            return;
        };
        let number = self.errors.iter().flatten().count() + self.running.len();
        self.running.push((number, Box::pin(attempt)));
        self.next = self.delay.map(|delay| Box::pin(sleep(delay)));
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        remaining: &mut impl Iterator<Item = F>,
    ) -> Poll<Result<T, Vec<E>>> {
        loop {
            let mut index = 0;
            while let Some((number, attempt)) = self.running.get_mut(index) {
                match attempt.as_mut().poll(cx) {
                    Poll::Pending => index += 1,
                    Poll::Ready(Ok(winner)) => return Poll::Ready(Ok(winner)),
                    Poll::Ready(Err(error)) => {
                        if let Some(slot) = self.errors.get_mut(*number) {
                            *slot = Some(error);
                        }
                        drop(self.running.remove(index));
                        // As in asyncio, only a failure of the latest attempt starts the next one at once; otherwise
                        // the delay decides.
                        if index == self.running.len() {
                            self.start(remaining.next());
                        }
                    }
                }
            }
            if self.running.is_empty() {
                let errors = self.errors.iter_mut().filter_map(Option::take).collect();
                return Poll::Ready(Err(errors));
            }
            let is_time = self.next.as_mut().is_some_and(|next| next.as_mut().poll(cx).is_ready());
            if !is_time {
                return Poll::Pending;
            }
            self.start(remaining.next());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(pattern: &str) -> Vec<SocketAddr> {
        let address = |(port, family)| match family {
            '4' => SocketAddr::from(([127, 0, 0, 1], port)),
            _ => SocketAddr::from(([0_u16; 8], port)),
        };
        (1..).zip(pattern.chars()).map(address).collect()
    }

    fn ports(addresses: &[SocketAddr]) -> Vec<u16> {
        addresses.iter().map(SocketAddr::port).collect()
    }

    #[test]
    fn addresses_are_interleaved_as_in_asyncio() {
        assert_eq!(ports(&interleave(mixed("66644"), 0)), [1, 2, 3, 4, 5]);
        assert_eq!(ports(&interleave(mixed("66644"), 1)), [1, 4, 2, 5, 3]);
        assert_eq!(ports(&interleave(mixed("66644"), 2)), [1, 2, 4, 3, 5]);
        assert_eq!(ports(&interleave(mixed("4666"), 1)), [1, 2, 3, 4]);
        assert_eq!(ports(&interleave(mixed("66"), 9)), [1, 2]);
        assert_eq!(ports(&interleave(Vec::new(), 1)), [0; 0]);
    }
}

//! A connection that wakes itself goes on at once.
//!
//! In: a future. Out: the same, polled again where it was woken while it was polled. hyper wakes itself between a
//! request's head and its body; behind the tasks of all other connections, what it works on would have left the
//! processor's caches by its next turn. Never: a wake that is lost, nor a future that keeps its turn by waking itself.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Polls in one turn.
const IN_A_TURN: usize = 4;

const RESTING: u8 = 0;
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

/// Wakes the task; while its future is polled, it only notes that it was rung.
struct Bell {
    state: AtomicU8,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire) == Err(RESTING) {
            self.task.wake_by_ref();
        }
    }
}

/// Runs a future.
pub(super) async fn at_once<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut rung: Option<(Arc<Bell>, Waker)> = None;
    poll_fn(move |cx| {
        rung = rung.take().filter(|(bell, _)| bell.task.will_wake(cx.waker()));
        let (bell, waker) = rung.get_or_insert_with(|| {
            let bell = Arc::new(Bell { state: AtomicU8::new(RESTING), task: cx.waker().clone() });
            (Arc::clone(&bell), bell.into())
        });
        for _ in 0..IN_A_TURN {
            bell.state.store(POLLED, Ordering::Release);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            if bell.state.compare_exchange(POLLED, RESTING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        bell.state.store(RESTING, Ordering::Release);
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::pin,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Wake, Waker},
    };

    use super::{IN_A_TURN, at_once};

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs a future that wakes itself so often before it is ready; its turns, and how often the task was woken.
    fn run(rings: usize) -> (usize, usize) {
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut polls = 0;
        let mut future = pin!(at_once(poll_fn(|cx| {
            polls += 1;
            if polls > rings {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })));
        let mut turns = 1;
        while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            turns += 1;
            assert_eq!(counter.0.load(Ordering::Relaxed), turns - 1, "who ends a turn unready has asked for another");
        }
        (turns, counter.0.load(Ordering::Relaxed))
    }

    #[test]
    fn what_wakes_itself_goes_on_in_the_same_turn_a_few_times() {
        assert_eq!(run(0), (1, 0));
        assert_eq!(run(1), (1, 0));
        assert_eq!(run(IN_A_TURN - 1), (1, 0));
        assert_eq!(run(IN_A_TURN), (2, 1));
        assert_eq!(run(3 * IN_A_TURN), (4, 3));
    }

    #[test]
    fn a_wake_from_outside_reaches_whoever_polled_last() {
        let kept: Mutex<Option<Waker>> = Mutex::new(None);
        let mut future = pin!(at_once(poll_fn(|cx| {
            *kept.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })));
        let counters = [(); 2].map(|()| Arc::new(Counter::default()));
        for counter in &counters {
            let waker = Waker::from(Arc::clone(counter));
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!(counter.0.load(Ordering::Relaxed), 0);
            kept.lock().unwrap().as_ref().unwrap().wake_by_ref();
            assert_eq!(counter.0.load(Ordering::Relaxed), 1);
        }
        assert_eq!(counters[0].0.load(Ordering::Relaxed), 1);
    }
}

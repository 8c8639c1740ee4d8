//! `queue`: workers of reviews, and the time-outs after which work counts as abandoned.

use std::time::Duration;

use super::{
    super::{
        keys::Keys,
        number::{Time, whole},
    },
    ms, secs,
    section::section,
};

section! {
    /// Workers of reviews, and the time-outs after which work counts as abandoned.
    Queue {
        /// Reviews at a time in this process. 0 makes a process that only accepts events.
        workers: usize = 8, whole(0..=256);
        /// Workers kept for active shadows, whose verdicts a client may wait for. At least one must remain for other
        /// shadows.
        active_slots: usize = 2, whole(0..=255);
        /// Time between heartbeats of a process.
        heartbeat: Duration = secs(3), Time(ms(100)..=secs(60));
        /// Age of its last heartbeat from which a process starts no review.
        fence_after: Duration = secs(9), Time(ms(200)..=secs(300));
        /// Age of its last heartbeat from which a process counts as dead, and its reviews run elsewhere.
        dead_after: Duration = secs(12), Time(ms(300)..=secs(600));
        /// Time between polls of the queue when nothing wakes it.
        poll: Duration = secs(1), Time(ms(50)..=secs(60));
        /// Most starts of a review; after them it ends with the findings of the built-in checks.
        max_attempts: u32 = 8, whole(1..=100);
        /// Longest that a review waits for a model or for money; it then ends with the findings of the built-in checks.
        give_up_after: Duration = secs(1_800), Time(secs(10)..=secs(86_400));
        /// Waiting reviews from which further events are skipped as `overload`.
        max_queued: u32 = 10_000, whole(1..=1_000_000);
    }
    rules check;
}

fn check(queue: &mut Queue, keys: &mut Keys<'_>) {
    let most = queue.workers.saturating_sub(1);
    if keys.has("active_slots") && queue.active_slots > most {
        keys.fault(
            "active_slots",
            format!("{} of {} workers would be reserved for active shadows", queue.active_slots, queue.workers),
            format!("write at most {most}, or raise workers"),
        );
    }
    // The default is lowered where there are few workers.
    queue.active_slots = queue.active_slots.min(most);
    if queue.heartbeat >= queue.fence_after || queue.fence_after >= queue.dead_after {
        let key = keys.first_of(["fence_after", "dead_after", "heartbeat"]);
        keys.fault(
            key,
            "heartbeat, fence_after and dead_after are not in order",
            "write heartbeat < fence_after < dead_after, such as 3s, 9s, 12s: otherwise two processes may run the same \
             review",
        );
    }
}

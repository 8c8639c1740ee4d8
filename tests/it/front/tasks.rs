//! Tasks and signals that end the process, and those that do not.

use tokio::time::{sleep, timeout};
use umbra::lifecycle::{Drained, TaskFailure, Tasks};

use super::server::{PATIENCE, SHORT};

#[tokio::test]
async fn only_the_end_of_an_essential_task_stops_the_process() {
    for (panics, failure) in [(true, TaskFailure::Panicked("heart")), (false, TaskFailure::Ended("heart"))] {
        let tasks = Tasks::new();
        tasks.spawn("finger", async { panic!("hurt") });
        sleep(SHORT).await;
        assert!(!tasks.soft().is_cancelled());
        tasks.spawn_essential("heart", async move { assert!(!panics, "stopped") });
        timeout(PATIENCE, tasks.soft().cancelled()).await.expect("it went on without a heart");
        assert_eq!(tasks.shutdown(PATIENCE).await, Err(failure));
    }
    let tasks = Tasks::new();
    let soft = tasks.soft().clone();
    tasks.spawn_essential("heart", async move { soft.cancelled().await });
    assert_eq!(tasks.shutdown(PATIENCE).await, Ok(Drained { dropped: 0 }));
}

#[tokio::test]
async fn second_signal_stops_at_once_and_sighup_requests_a_reload() {
    use nix::sys::signal::{Signal, raise};
    let tasks = Tasks::new();
    tasks.listen().unwrap();
    raise(Signal::SIGHUP).unwrap();
    timeout(PATIENCE, tasks.reload_wanted()).await.expect("no reload");
    tasks.spawn("stubborn", std::future::pending());
    raise(Signal::SIGTERM).unwrap();
    timeout(PATIENCE, tasks.soft().cancelled()).await.expect("no soft stop");
    assert!(!tasks.hard().is_cancelled());
    raise(Signal::SIGINT).unwrap();
    timeout(PATIENCE, tasks.hard().cancelled()).await.expect("no hard stop");
    assert!(timeout(PATIENCE, tasks.shutdown(PATIENCE * 10)).await.expect("it waited").is_ok());
}

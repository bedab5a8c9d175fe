//! What tests are built from: a database each, a server in this process or in one of its own, a client.

mod cluster;
mod http;
mod process;
mod proxy;
mod receiver;
mod shop;

pub use cluster::Database;
pub use http::{Client, Reply};
pub use process::{Process, signal};
pub use proxy::{Cut, Proxy};
pub use receiver::{Answer, Receiver};
pub use shop::{Server, Shop, order, order_of};

/// Runs `work` on `count` threads that start at the same moment, and returns what each made, in order.
pub fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = std::sync::Barrier::new(count);
    std::thread::scope(|scope| {
        let (barrier, work) = (&barrier, &work);
        let threads: Vec<_> = (0..count)
            .map(|number| {
                scope.spawn(move || {
                    barrier.wait();
                    work(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Asks `is_so` again and again until it is, for at most 30 s: for what another process does at its own pace.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "waited 30 s in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

//! Where buyers find the server: a process of its own, which can be another one after a while.

use std::sync::Mutex;

use crate::support::{Client, Process};

/// A counter behind which servers come and go.
pub struct Counter<'s> {
    start: Box<dyn Fn() -> Process + Sync + 's>,
    key: String,
    server: Mutex<Option<Process>>,
    client: Mutex<Client>,
}

impl<'s> Counter<'s> {
    /// Opens with the server that `start` starts; buyers come with the partner's `key`.
    pub fn open(key: &str, start: impl Fn() -> Process + Sync + 's) -> Self {
        let server = start();
        let client = Mutex::new(server.client().with_key(key));
        Self { start: Box::new(start), key: key.to_owned(), server: Mutex::new(Some(server)), client }
    }

    /// Puts another server in the place of the one that was taken.
    pub fn start(&self) {
        let server = (self.start)();
        *self.client.lock().unwrap() = server.client().with_key(&self.key);
        *self.server.lock().unwrap() = Some(server);
    }

    /// Takes the server away, to be ended.
    pub fn take(&self) -> Process {
        self.server.lock().unwrap().take().unwrap()
    }

    /// A client of the latest server.
    pub fn client(&self) -> Client {
        self.client.lock().unwrap().clone()
    }
}

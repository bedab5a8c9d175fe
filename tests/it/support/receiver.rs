//! Somebody who is told of things by HTTP: a webhook's endpoint.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use serde_json::Value;

/// What a receiver was sent.
#[derive(Clone, Debug)]
pub struct Received {
    /// By name in lower case.
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// What it tells, and the number of the change.
    pub fn told(&self) -> (String, i64) {
        let body = self.json();
        (body["type"].as_str().unwrap().to_owned(), body["data"]["change"]["number"].as_i64().unwrap_or(-1))
    }
}

/// What a receiver answers.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// This status.
    Status(u16),
    /// A redirect to this port of this machine.
    Redirect(u16),
    /// Nothing, for as long as the other side waits.
    Nothing,
}

/// A receiver, which answers each request as it is told to, by its number from 0.
pub struct Receiver {
    port: u16,
    received: Arc<(Mutex<Vec<Received>>, Condvar)>,
}

impl Receiver {
    pub fn answering(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received: Arc<(Mutex<Vec<Received>>, Condvar)> = Arc::default();
        let (shared, answer) = (Arc::clone(&received), Arc::new(answer));
        // It ends with the test.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (shared, answer) = (Arc::clone(&shared), Arc::clone(&answer));
                thread::spawn(move || while let Some(()) = serve(&stream, &shared, answer.as_ref()) {});
            }
        });
        Self { port, received }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Everything that it was sent so far.
    pub fn so_far(&self) -> Vec<Received> {
        self.received.0.lock().unwrap().clone()
    }

    /// The same, once there are `count`.
    pub fn wait_for(&self, count: usize) -> Vec<Received> {
        let (received, arrived) = &*self.received;
        let waited =
            arrived.wait_timeout_while(received.lock().unwrap(), Duration::from_secs(60), |received| received.len() < count).unwrap();
        assert!(!waited.1.timed_out(), "{} of {count} arrived in a minute", waited.0.len());
        waited.0.clone()
    }
}

/// Reads one request and answers it; nothing, if the connection has ended.
fn serve(stream: &TcpStream, shared: &(Mutex<Vec<Received>>, Condvar), answer: &dyn Fn(usize) -> Answer) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: HashMap<String, String> = lines.iter().skip(1).filter_map(header).collect();
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let number = {
        let mut received = shared.0.lock().unwrap();
        received.push(Received { headers, body: String::from_utf8(body).unwrap() });
        received.len() - 1
    };
    shared.1.notify_all();
    let mut stream = stream;
    match answer(number) {
        Answer::Status(status) => write!(stream, "HTTP/1.1 {status} Said\r\ncontent-length: 4\r\n\r\nsaid").ok(),
        Answer::Redirect(port) => {
            write!(stream, "HTTP/1.1 307 There\r\nlocation: http://127.0.0.1:{port}/\r\ncontent-length: 0\r\n\r\n").ok()
        }
        Answer::Nothing => {
            let _ = stream.read(&mut [0; 1]);
            None
        }
    }
}

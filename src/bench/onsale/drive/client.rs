//! One connection at a time, kept open as long as the server keeps it.

use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    task::Poll,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep, timeout},
};

use super::{
    ANSWER_WAIT, CONNECT_WAIT,
    engine::{Due, Engine, Post},
};
use crate::bench::onsale::{
    record::{Kind, Times},
    wire::{self, Head},
};

/// What is read at first; an order of a few tickets fits.
const BUFFER_BYTES: usize = 4 * 1024;
/// Largest answer: an order of a thousand tickets has about 150 KiB.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Pause after a connection that could not be made, so that a server that is gone is not asked without end.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// A connection, or the lack of one.
struct Line {
    address: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
    /// One timer for all requests: moving it on is cheaper than making one for each.
    alarm: Pin<Box<Sleep>>,
}

/// Sends one request after the other, for as long as the load runs.
pub(super) async fn serve(engine: Rc<Engine>, post: Rc<Post>, place: usize, address: SocketAddr, first: Due) {
    let mut line = Line { address, stream: None, buffer: vec![0; BUFFER_BYTES], alarm: Box::pin(sleep(ANSWER_WAIT)) };
    let mut due = first;
    loop {
        send(&engine, &post, place, &mut line, &due).await;
        due = match engine.next_for(place, &post, engine.now()) {
            Some(next) => next,
            None => post.next().await,
        };
    }
}

/// Sends one request and notes how it ended.
async fn send(engine: &Engine, post: &Post, place: usize, line: &mut Line, due: &Due) {
    let buyer = engine.buyer(due);
    let mut sent = engine.now();
    engine.begin(post, *due, sent);
    let end = |sent: u64, kind: Kind, body: &[u8]| {
        engine.end(post, due, Times { intended: due.intended, sent, ended: engine.now() }, kind, body);
    };
    let mut stream = match line.take_connected().await {
        Ok(stream) => stream,
        Err(_) => {
            end(sent, Kind::NotConnected, &[]);
            return sleep(REFUSED_PAUSE).await;
        }
    };
    sent = engine.now();
    // Nearly always the whole request fits into the socket's buffer at once; only what does not is copied.
    let written = engine.with_request(place, due, &buyer, |bytes| match stream.try_write(bytes) {
        Ok(count) if count == bytes.len() => Ok(Vec::new()),
        Ok(count) => Ok(bytes.get(count..).unwrap_or_default().to_vec()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(bytes.to_vec()),
        Err(error) => Err(error),
    });
    if let Some(after) = buyer.again_after.filter(|_| !due.is_second) {
        engine.click_again(place, post, due, after, sent);
    }
    let rest = match written {
        Ok(rest) if rest.is_empty() => Ok(()),
        Ok(rest) => timeout(ANSWER_WAIT, stream.write_all(&rest)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        Err(error) => Err(error),
    };
    if rest.is_err() {
        return end(sent, Kind::Broken, &[]);
    }
    if buyer.hangs_up && !due.is_second {
        drop(stream);
        return end(sent, Kind::HungUp, &[]);
    }
    line.alarm.as_mut().reset(Instant::now() + ANSWER_WAIT);
    match read(&mut stream, &mut line.buffer, line.alarm.as_mut()).await {
        Ok(head) => {
            let body = line.buffer.get(head.head_bytes..head.head_bytes + head.body_bytes).unwrap_or_default();
            end(sent, Kind::of(head.status, body), body);
            line.stream = (!head.closes).then_some(stream);
        }
        Err(kind) => end(sent, kind, &[]),
    }
}

impl Line {
    /// The connection, taken out; a new one if there is none, or the server has closed it meanwhile.
    async fn take_connected(&mut self) -> io::Result<TcpStream> {
        // Whatever can be read while nothing was asked for is the end of the connection. Without news this asks nobody: the event
        // loop knows.
        if let Some(stream) = self.stream.take()
            && is_silent(&stream)
        {
            return Ok(stream);
        }
        let stream = timeout(CONNECT_WAIT, TcpStream::connect(self.address)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

fn is_silent(stream: &TcpStream) -> bool {
    matches!(stream.try_read(&mut [0; 1]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Reads one answer into `buffer`, from its beginning.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>, mut alarm: Pin<&mut Sleep>) -> Result<Head, Kind> {
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            if filled >= ANSWER_BYTES_MAX {
                return Err(Kind::Broken);
            }
            buffer.resize(filled * 2, 0);
        }
        let room = buffer.get_mut(filled..).unwrap_or_default();
        let mut room = ReadBuf::new(room);
        poll_fn(|context| match Pin::new(&mut *stream).poll_read(context, &mut room) {
            Poll::Ready(read) => Poll::Ready(read.map_err(|_| Kind::Broken)),
            Poll::Pending => alarm.as_mut().poll(context).map(|()| Err(Kind::TimedOut)),
        })
        .await?;
        let count = room.filled().len();
        if count == 0 {
            return Err(Kind::Broken);
        }
        filled += count;
        let arrived = buffer.get(..filled).unwrap_or_default();
        let Some(head) = wire::head(arrived).map_err(|_| Kind::Broken)? else { continue };
        let whole = head.head_bytes + head.body_bytes;
        if whole > ANSWER_BYTES_MAX || filled > whole {
            return Err(Kind::Broken);
        }
        if filled == whole {
            return Ok(head);
        }
    }
}

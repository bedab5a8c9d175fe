//! One thread's share of the load: who is due, which connection is free, and what was answered.

use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::{BinaryHeap, HashSet, VecDeque},
    future::poll_fn,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::spawn_local};

use super::{DRAIN_WAIT, Live, client};
use crate::bench::onsale::{
    args::{BUYERS_MAX, Plan, Server},
    record::{Kind, Record, Times},
    script::{Buyer, Script},
    wire::{Requests, Stage},
};

/// How far into a queue a free connection looks for a request that it may send: a second click goes to another connection than the first.
const LOOK_AHEAD: usize = 8;

/// A request that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) buyer: u32,
    pub(super) is_second: bool,
    /// In nanoseconds from the beginning.
    pub(super) intended: u64,
    /// The connection that sent the first click.
    avoid: Option<usize>,
}

/// Where a free connection waits for its next request.
pub(super) struct Post {
    id: usize,
    due: Cell<Option<Due>>,
    waker: Cell<Option<Waker>>,
}

impl Post {
    fn hand(&self, due: Due) {
        self.due.set(Some(due));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) async fn next(&self) -> Due {
        poll_fn(|context| {
            self.due.take().map_or_else(
                || {
                    self.waker.set(Some(context.waker().clone()));
                    Poll::Pending
                },
                Poll::Ready,
            )
        })
        .await
    }
}

/// One server, and this thread's connections to it.
struct Lane {
    server: Server,
    waiting: VecDeque<Due>,
    /// The last to become free is the first to be used, so that no more connections are in use than needed.
    idle: Vec<Rc<Post>>,
    opened: usize,
    most: usize,
}

/// A second click to come: when, whose, to which lane, and which connection sent the first.
type Second = Reverse<(u64, u32, usize, usize)>;

struct State {
    lanes: Vec<Lane>,
    seconds: BinaryHeap<Second>,
    /// How many buyers have come to this thread.
    come: u64,
    /// What each connection is about, by its number.
    sending: Vec<Option<(Due, u64)>>,
    record: Record,
    /// Of the buyers with a key who click twice, those who have their order.
    twice: HashSet<u32>,
}

/// One thread's share of the load.
pub(super) struct Engine {
    script: Script,
    origin: Instant,
    end: Duration,
    rate: u64,
    closed: bool,
    number: u64,
    threads: u64,
    pub(super) live: Arc<Live>,
    requests: RefCell<Vec<Requests>>,
    state: RefCell<State>,
}

impl Engine {
    pub(super) fn new(plan: &Plan, stage: &Stage, number: usize, origin: Instant, live: Arc<Live>) -> Self {
        let lanes = plan.servers.len();
        let lane = |(place, server): (usize, &Server)| Lane {
            server: server.clone(),
            waiting: VecDeque::new(),
            idle: Vec::new(),
            opened: 0,
            most: part(plan.connections, plan.threads * lanes, number * lanes + place),
        };
        let requests = plan.servers.iter().map(|server| Requests::new(stage, server, plan.script.quantity)).collect();
        let state = State {
            lanes: plan.servers.iter().enumerate().map(lane).collect(),
            seconds: BinaryHeap::new(),
            come: 0,
            sending: Vec::new(),
            record: Record::default(),
            twice: HashSet::new(),
        };
        Self {
            script: plan.script,
            origin,
            end: plan.end,
            rate: plan.rate,
            closed: plan.closed,
            number: u64::try_from(number).unwrap_or(0),
            threads: u64::try_from(plan.threads).unwrap_or(1).max(1),
            live,
            requests: RefCell::new(requests),
            state: RefCell::new(state),
        }
    }

    /// Nanoseconds since the beginning.
    pub(super) fn now(&self) -> u64 {
        nanos(Instant::now().saturating_duration_since(self.origin))
    }

    /// Lets buyers in at each beat, until all have come and gone, the time is up, or the run is to stop.
    pub(super) async fn run(self: Rc<Self>, waker: &Notify) {
        let give_up_at = nanos(self.end + DRAIN_WAIT);
        let mut is_open = !self.closed;
        loop {
            waker.notified().await;
            let now = self.now();
            if !is_open && Instant::now() >= self.origin {
                self.open_all();
                is_open = true;
            }
            self.let_in(now);
            let stop = self.live.stop.load(Ordering::Relaxed);
            if stop || now >= give_up_at || (is_open && self.is_over(now)) {
                break;
            }
        }
        self.cut();
    }

    /// Closed loop: every connection begins at once.
    fn open_all(self: &Rc<Self>) {
        let lanes = self.state.borrow().lanes.len();
        for lane in 0..lanes {
            let most = self.state.borrow().lanes.get(lane).map_or(0, |lane| lane.most);
            for _ in 0..most {
                let Some(due) = self.newcomer(&mut self.state.borrow_mut(), self.now()) else { return };
                self.open(&mut self.state.borrow_mut(), lane, due);
            }
        }
    }

    /// Queues whoever is due at `now`, and gives them to free connections.
    fn let_in(self: &Rc<Self>, now: u64) {
        let mut state = self.state.borrow_mut();
        self.collect(&mut state, now);
        self.hand_out(&mut state);
    }

    fn collect(&self, state: &mut State, now: u64) {
        let mut came = 0;
        while let Some(Reverse((due, buyer, lane, avoid))) = state.seconds.peek().copied()
            && due <= now
        {
            state.seconds.pop();
            if let Some(lane) = state.lanes.get_mut(lane) {
                lane.waiting.push_back(Due { buyer, is_second: true, intended: due, avoid: Some(avoid) });
                came += 1;
            }
        }
        while !self.closed
            && let Some(due) = self.next_arrival(state.come)
            && due.intended <= now
        {
            let lanes = u64::try_from(state.lanes.len()).unwrap_or(1).max(1);
            let place = usize::try_from(state.come % lanes).unwrap_or(0);
            state.come += 1;
            if let Some(lane) = state.lanes.get_mut(place) {
                lane.waiting.push_back(due);
                came += 1;
            }
        }
        if came > 0 {
            self.live.waiting.fetch_add(came, Ordering::Relaxed);
        }
    }

    /// The next buyer to come by the clock, if there is one.
    fn next_arrival(&self, come: u64) -> Option<Due> {
        let number = come * self.threads + self.number;
        let intended = number.checked_mul(1_000_000_000)? / self.rate.max(1);
        (intended < nanos(self.end)).then_some(Due { buyer: u32::try_from(number).ok()?, is_second: false, intended, avoid: None })
    }

    /// The next buyer of a closed loop, who comes when there is a free connection.
    fn newcomer(&self, state: &mut State, now: u64) -> Option<Due> {
        let number = state.come * self.threads + self.number;
        if !self.closed || now >= nanos(self.end) || number >= BUYERS_MAX {
            return None;
        }
        state.come += 1;
        self.live.waiting.fetch_add(1, Ordering::Relaxed);
        Some(Due { buyer: u32::try_from(number).ok()?, is_second: false, intended: now, avoid: None })
    }

    /// Gives waiting requests to free connections, or to new ones as long as more may be opened.
    fn hand_out(self: &Rc<Self>, state: &mut State) {
        for place in 0..state.lanes.len() {
            while let Some(lane) = state.lanes.get_mut(place)
                && let Some(due) = lane.waiting.front().copied()
            {
                let other = lane.idle.iter().rposition(|post| Some(post.id) != due.avoid);
                let may_open = lane.opened < lane.most;
                let post = match other {
                    Some(place) => Some(lane.idle.remove(place)),
                    // Rather the same connection than none.
                    None if !may_open => lane.idle.pop(),
                    None => None,
                };
                if post.is_none() && !may_open {
                    break;
                }
                lane.waiting.pop_front();
                match post {
                    Some(post) => post.hand(due),
                    None => self.open(state, place, due),
                }
            }
        }
    }

    fn open(self: &Rc<Self>, state: &mut State, place: usize, due: Due) {
        let id = state.sending.len();
        state.sending.push(None);
        let Some(lane) = state.lanes.get_mut(place) else { return };
        lane.opened += 1;
        let post = Rc::new(Post { id, due: Cell::new(None), waker: Cell::new(None) });
        spawn_local(client::serve(Rc::clone(self), post, place, lane.server.address, due));
    }

    /// What the connection at `post` is to send next; if nothing, it is put with the free ones.
    pub(super) fn next_for(self: &Rc<Self>, place: usize, post: &Rc<Post>, now: u64) -> Option<Due> {
        let mut state = self.state.borrow_mut();
        self.collect(&mut state, now);
        let lane = state.lanes.get_mut(place)?;
        let fitting = lane.waiting.iter().take(LOOK_AHEAD).position(|due| due.avoid != Some(post.id));
        let mut next = fitting.and_then(|place| lane.waiting.remove(place));
        if next.is_none() {
            next = self.newcomer(&mut state, now);
        }
        if next.is_none() {
            state.lanes.get_mut(place)?.idle.push(Rc::clone(post));
        }
        self.hand_out(&mut state);
        next
    }

    pub(super) fn buyer(&self, due: &Due) -> Buyer {
        self.script.buyer(due.buyer)
    }

    /// Lends the bytes of a request to `send`, at once.
    pub(super) fn with_request<T>(&self, place: usize, due: &Due, buyer: &Buyer, send: impl FnOnce(&[u8]) -> T) -> T {
        let mut requests = self.requests.borrow_mut();
        send(requests.get_mut(place).map_or(&[], |requests| requests.of(due.buyer, buyer)))
    }

    /// A connection begins to work on a request.
    pub(super) fn begin(&self, post: &Post, due: Due, now: u64) {
        if let Some(sending) = self.state.borrow_mut().sending.get_mut(post.id) {
            *sending = Some((due, now));
        }
    }

    /// A first click was sent: the second follows, through the next server if there are several.
    pub(super) fn click_again(&self, place: usize, post: &Post, due: &Due, after: Duration, now: u64) {
        let mut state = self.state.borrow_mut();
        let lane = (place + 1) % state.lanes.len().max(1);
        state.seconds.push(Reverse((now + nanos(after), due.buyer, lane, post.id)));
    }

    /// A connection has ended a request.
    pub(super) fn end(&self, post: &Post, due: &Due, times: Times, kind: Kind, body: &[u8]) {
        let mut state = self.state.borrow_mut();
        if let Some(sending) = state.sending.get_mut(post.id) {
            *sending = None;
        }
        self.note(&mut state, due, times, kind, body);
    }

    fn note(&self, state: &mut State, due: &Due, times: Times, kind: Kind, body: &[u8]) {
        let live = &self.live;
        let add = |counter: &std::sync::atomic::AtomicU64, count: u64| counter.fetch_add(count, Ordering::Relaxed);
        match kind {
            Kind::Sold => {
                let buyer = self.script.buyer(due.buyer);
                let is_again = buyer.keyed && buyer.again_after.is_some() && !state.twice.insert(due.buyer);
                if !is_again {
                    add(&live.orders, 1);
                    add(&live.tickets, u64::from(buyer.quantity));
                }
            }
            Kind::SoldOut | Kind::TooFewLeft | Kind::AllHeld => drop(add(&live.short, 1)),
            Kind::Busy | Kind::Unavailable | Kind::InProgress => drop(add(&live.busy, 1)),
            Kind::HungUp => {}
            _ => drop(add(&live.failed, 1)),
        }
        if kind.is_answer() {
            live.answered_at.fetch_max(times.ended, Ordering::Relaxed);
            live.refused.store(0, Ordering::Relaxed);
        } else if kind == Kind::NotConnected {
            add(&live.refused, 1);
        }
        live.waiting.fetch_sub(1, Ordering::Relaxed);
        state.record.note(due.buyer, due.is_second, times, kind, body);
    }

    fn is_over(&self, now: u64) -> bool {
        let state = self.state.borrow();
        now >= nanos(self.end)
            && state.seconds.is_empty()
            && state.lanes.iter().all(|lane| lane.waiting.is_empty() && lane.idle.len() == lane.opened)
    }

    /// Ends whatever has not ended.
    fn cut(&self) {
        let mut state = self.state.borrow_mut();
        let now = self.now();
        let sending: Vec<(Due, u64)> = state.sending.iter_mut().filter_map(Option::take).collect();
        for (due, sent) in sending {
            self.note(&mut state, &due, Times { intended: due.intended, sent, ended: now }, Kind::TimedOut, &[]);
        }
        let waiting: Vec<Due> = state.lanes.iter_mut().flat_map(|lane| lane.waiting.drain(..)).collect();
        for due in waiting {
            self.note(&mut state, &due, Times { intended: due.intended, sent: now, ended: now }, Kind::NotSent, &[]);
        }
    }

    pub(super) fn into_record(self) -> Record {
        self.state.into_inner().record
    }
}

/// The part of `whole` that `place` of `parts` has.
fn part(whole: usize, parts: usize, place: usize) -> usize {
    let parts = parts.max(1);
    whole / parts + usize::from(place < whole % parts)
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

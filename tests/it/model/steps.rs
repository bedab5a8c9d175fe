//! What people do, made up at random. Orders and requests are named by a number, modulo how many there are by then, so that a step means
//! something wherever shrinking leaves it.

use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

/// The ticket types of every event here: code and price in minor units.
pub const KINDS: [(&str, i64); 2] = [("standard", 4_500), ("vip", 9_000)];

/// One address a buyer, written in several ways; a limit counts them together.
const BUYERS: [[&str; 2]; 3] =
    [["ada@example.org", "Ada+gala@Example.ORG"], ["bob@example.org", "BOB@example.org"], ["cleo@example.org", "cleo+vip@example.org"]];

/// The event of one case.
#[derive(Clone, Debug)]
pub struct Terms {
    pub max_per_order: i64,
    pub max_per_buyer: Option<i64>,
    /// Tickets of each kind that are there from the beginning.
    pub stock: [i64; 2],
}

/// What somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// A hold of so many seconds; nothing if it is to be sold at once.
    pub hold_secs: Option<i64>,
    pub buyer: usize,
    /// Which way of writing the buyer's address.
    pub spelling: usize,
    /// How many of each kind.
    pub quantities: [i64; 2],
    pub accept_fewer: bool,
}

impl Wish {
    /// How many tickets in all.
    pub fn requested(&self) -> i64 {
        self.quantities.iter().sum()
    }

    /// The call's last part, and its body.
    pub fn call(&self) -> (&'static str, Value) {
        let wanted = KINDS.iter().zip(self.quantities).filter(|(_, quantity)| *quantity > 0);
        let items: Vec<Value> = wanted.map(|((code, _), quantity)| json!({"ticket_type": code, "quantity": quantity})).collect();
        let buyer = json!({"name": "Ada", "email": BUYERS[self.buyer][self.spelling]});
        let mut body = json!({"buyer": buyer, "items": items, "accept_fewer": self.accept_fewer});
        match self.hold_secs {
            Some(secs) => {
                body["ttl_seconds"] = json!(secs);
                ("holds", body)
            }
            None => ("orders", body),
        }
    }
}

/// Which tickets of an order are given back.
#[derive(Clone, Debug)]
pub enum Giving {
    All,
    /// So many of those that it has or had, from that one on.
    Some {
        from: usize,
        count: usize,
    },
    /// One that never was the order's.
    Foreign,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    Load {
        kind: usize,
        quantity: i64,
    },
    Take {
        wish: Wish,
        keyed: bool,
    },
    Repeat {
        request: usize,
    },
    ReuseKey {
        request: usize,
    },
    Confirm {
        order: usize,
    },
    /// Of the holds that are over.
    ConfirmLate {
        hold: usize,
    },
    Cancel {
        order: usize,
        giving: Giving,
    },
    Wait {
        secs: i64,
    },
    LimitBuyers {
        max: Option<i64>,
    },
    Sweep,
    Restart,
}

pub fn terms() -> impl Strategy<Value = Terms> {
    (3..=6_i64, option::of(2..=7_i64), [0..=5_i64, 0..=3_i64]).prop_map(|(max_per_order, max_per_buyer, stock)| Terms {
        max_per_order,
        max_per_buyer,
        stock,
    })
}

/// A wish for few tickets: with little stock that is enough for every kind of shortage.
pub fn wish() -> impl Strategy<Value = Wish> {
    let quantities = prop_oneof![
        3 => (1..=4_i64).prop_map(|standard| [standard, 0]),
        1 => (1..=3_i64).prop_map(|vip| [0, vip]),
        2 => (1..=3_i64, 1..=2_i64).prop_map(|(standard, vip)| [standard, vip]),
    ];
    (option::weighted(0.7, select(vec![1_i64, 1, 20, 60])), 0..BUYERS.len(), 0..2_usize, quantities, prop::bool::weighted(0.3))
        .prop_map(|(hold_secs, buyer, spelling, quantities, accept_fewer)| Wish { hold_secs, buyer, spelling, quantities, accept_fewer })
}

pub fn giving() -> impl Strategy<Value = Giving> {
    prop_oneof![
        4 => Just(Giving::All),
        4 => (0..8_usize, 1..4_usize).prop_map(|(from, count)| Giving::Some { from, count }),
        1 => Just(Giving::Foreign),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let number = 0..32_usize;
    prop_oneof![
        1 => (0..KINDS.len(), 1..=4_i64).prop_map(|(kind, quantity)| Step::Load { kind, quantity }),
        16 => (wish(), prop::bool::weighted(0.8)).prop_map(|(wish, keyed)| Step::Take { wish, keyed }),
        3 => number.clone().prop_map(|request| Step::Repeat { request }),
        1 => number.clone().prop_map(|request| Step::ReuseKey { request }),
        5 => number.clone().prop_map(|order| Step::Confirm { order }),
        8 => number.clone().prop_map(|hold| Step::ConfirmLate { hold }),
        6 => (number, giving()).prop_map(|(order, giving)| Step::Cancel { order, giving }),
        5 => select(vec![1_i64, 19, 20, 60]).prop_map(|secs| Step::Wait { secs }),
        1 => option::of(2..=7_i64).prop_map(|max| Step::LimitBuyers { max }),
        2 => Just(Step::Sweep),
        1 => Just(Step::Restart),
    ]
}

/// Steps, each with the server that it goes through.
pub fn steps(count_max: usize) -> impl Strategy<Value = Vec<(usize, Step)>> {
    vec((0..2_usize, step()), 1..=count_max)
}

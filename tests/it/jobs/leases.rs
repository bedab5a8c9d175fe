//! Who has a job, and for how long.

use boxoffice::queue::{self, Completed, Fate, Retry};
use chrono::{DateTime, TimeDelta};
use serde_json::json;

use super::{after, claim, claim_at, complete, enqueue, job, jobs_of, now, states};
use crate::support::{Database, at_once};

const RETRY: Retry = Retry { attempts_max: 3, first_pause: TimeDelta::seconds(1), pause_max: TimeDelta::seconds(1) };

#[test]
fn what_one_has_taken_nobody_else_takes() {
    let database = Database::new();
    enqueue(&mut database.connect(), &(0..200).map(|number| job(None, json!(number))).collect::<Vec<_>>());
    let taken = at_once(8, |_| {
        let mut conn = database.connect();
        let mut taken = Vec::new();
        while let Some(lease) = claim_at(&mut conn, now(), 7) {
            taken.extend(super::told(&lease.jobs).iter().map(|payload| payload.as_i64().unwrap()));
        }
        taken
    });
    let mut all: Vec<i64> = taken.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
}

/// CASE 32.
#[test]
fn a_job_whose_consumer_died_is_taken_over_and_the_zombie_s_end_is_refused() {
    let database = Database::new();
    let mut conn = database.connect();
    enqueue(&mut conn, &jobs_of("a", 2));
    let zombie = claim_at(&mut conn, now(), 1).unwrap();
    assert_eq!(queue::take_back(&mut conn, after(59), |_| RETRY).unwrap(), 0, "its time is not up");
    assert_eq!(queue::take_back(&mut conn, after(60), |_| RETRY).unwrap(), 1);
    let other = claim_at(&mut conn, after(60), 1).unwrap();
    assert_eq!((&other.jobs[0].payload, other.jobs[0].attempt), (&json!(1), 2));
    assert_eq!(complete(&mut conn, after(61), &zombie), 0);
    let failed = queue::fail(&mut conn, after(61), zombie.token, &zombie.jobs[0], "late", Fate::GiveUp).unwrap();
    assert!(!failed, "nor may it fail it");
    assert_eq!(states(&database), [("CREATED".to_owned(), 1), ("WORKING".to_owned(), 1)], "the group has not moved on");
    assert_eq!(complete(&mut conn, after(61), &other), 1);
    assert_eq!(complete(&mut conn, after(62), &other), 0, "and once is enough");
    assert_eq!(claim(&mut conn, 10), [json!(null); 0], "it is due from when it became the next");
    assert_eq!(claim_at(&mut conn, after(62), 10).unwrap().jobs[0].payload, json!(2));
}

#[test]
fn what_the_zombie_wanted_done_next_is_not_enqueued() {
    let database = Database::new();
    let mut conn = database.connect();
    enqueue(&mut conn, &[job(None, json!("first"))]);
    let zombie = claim_at(&mut conn, now(), 1).unwrap();
    queue::take_back(&mut conn, after(60), |_| RETRY).unwrap();
    let next = vec![(&zombie.jobs[0], vec![job(None, json!("next"))])];
    assert_eq!(queue::complete(&mut conn, after(61), zombie.token, &next).unwrap(), Completed::default());
    let other = claim_at(&mut conn, after(61), 10).unwrap();
    let next = vec![(&other.jobs[0], vec![job(None, json!("next"))])];
    assert_eq!(queue::complete(&mut conn, after(61), other.token, &next).unwrap().jobs.len(), 1);
    assert_eq!(super::told(&claim_at(&mut conn, after(61), 10).unwrap().jobs), [json!("next")]);
}

/// CASE 34: a job that kills whoever takes it must not do so for ever.
#[test]
fn a_job_that_nobody_survives_is_given_up_after_its_tries() {
    let database = Database::new();
    let mut conn = database.connect();
    enqueue(&mut conn, &jobs_of("a", 2));
    for attempt in 1..=3 {
        assert_eq!(claim_at(&mut conn, after(attempt * 60), 1).unwrap().jobs[0].attempt, u32::try_from(attempt).unwrap());
        assert_eq!(queue::take_back(&mut conn, after(attempt * 60 + 60), |_| RETRY).unwrap(), 1);
    }
    assert_eq!(super::told(&claim_at(&mut conn, after(400), 10).unwrap().jobs), [json!(2)]);
    assert_eq!(queue::failures(&mut conn, 10).unwrap()[0].error, "its consumer did not end it in time");
}

#[test]
fn a_lane_that_is_paused_is_not_ready_and_the_others_are() {
    let database = Database::new();
    let mut conn = database.connect();
    queue::add_lanes(&mut conn, now(), &["tests", "others"]).unwrap();
    queue::add_lanes(&mut conn, now(), &["tests"]).unwrap();
    assert_eq!(queue::poll(&mut conn, now(), &[], |_| RETRY).unwrap(), [""; 0]);
    let other = queue::NewJob { lane: "others".to_owned(), ..job(None, json!(2)) };
    enqueue(&mut conn, &[job(None, json!(1)), other]);
    let ready = |conn: &mut _| {
        let mut ready = queue::poll(conn, now(), &[], |_| RETRY).unwrap();
        ready.sort();
        ready
    };
    assert_eq!(ready(&mut conn), ["others", "tests"]);
    assert!(queue::set_paused(&mut conn, now(), "tests", true).unwrap());
    assert_eq!(ready(&mut conn), ["others"]);
    assert_eq!(claim(&mut conn, 10), [json!(null); 0], "nor does one take from it who has not asked");
    assert!(queue::set_paused(&mut conn, after(5), "tests", true).unwrap());
    let paused = queue::lanes(&mut conn, after(5)).unwrap().into_iter().map(|lane| lane.paused_at).collect::<Vec<_>>();
    assert_eq!(paused, [None, Some(now())], "paused twice, it is paused since the first time");
    assert!(queue::set_paused(&mut conn, now(), "tests", false).unwrap());
    queue::rest(&mut conn, "tests", after(10)).unwrap();
    assert_eq!((ready(&mut conn).len(), claim_at(&mut conn, after(9), 1)), (1, None), "it rests");
    queue::rest(&mut conn, "tests", after(5)).unwrap();
    assert_eq!(claim_at(&mut conn, after(9), 1), None, "a shorter rest does not end a longer one");
    queue::end_rest(&mut conn, "tests").unwrap();
    assert_eq!(ready(&mut conn), ["others", "tests"]);
    assert!(!queue::set_paused(&mut conn, now(), "unknown", true).unwrap());
    let past_it = [("tests".to_owned(), now()), ("others".to_owned(), DateTime::UNIX_EPOCH)];
    assert_eq!(queue::poll(&mut conn, now(), &past_it, |_| RETRY).unwrap(), ["others"], "behind the mark there is nothing");
    assert_eq!(claim(&mut conn, 10), [json!(1)]);
}

#[test]
fn what_was_done_long_ago_is_forgotten_and_what_failed_is_not() {
    let database = Database::new();
    let mut conn = database.connect();
    enqueue(&mut conn, &[job(None, json!(1)), job(None, json!(2)), job(None, json!(3))]);
    let lease = claim_at(&mut conn, now(), 2).unwrap();
    assert!(queue::fail(&mut conn, now(), lease.token, &lease.jobs[1], "never", Fate::GiveUp).unwrap());
    let done = vec![(&lease.jobs[0], Vec::new())];
    assert_eq!(queue::complete(&mut conn, now(), lease.token, &done).unwrap().jobs.len(), 1);
    assert_eq!(queue::prune(&mut conn, now()).unwrap(), 0);
    assert_eq!(queue::prune(&mut conn, after(1)).unwrap(), 1);
    assert_eq!(states(&database), [("CREATED".to_owned(), 1), ("FAILED".to_owned(), 1)]);
    let lanes = queue::lanes(&mut conn, after(5)).unwrap();
    assert!(lanes.is_empty(), "no lane was made known");
    queue::add_lanes(&mut conn, now(), &["tests"]).unwrap();
    let lane = queue::lanes(&mut conn, after(5)).unwrap().remove(0);
    assert_eq!((lane.created, lane.working, lane.done, lane.failed, lane.oldest), (1, 0, 0, 1, Some(now())));
}

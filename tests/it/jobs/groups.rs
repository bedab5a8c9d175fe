//! Jobs of one group run one at a time and in order; groups run side by side.

use std::thread;

use boxoffice::{
    db::{DbError, transaction},
    ids::JobId,
    queue::{self, Fate, PutBack},
};
use diesel::connection::SimpleConnection;
use serde_json::json;

use super::{after, claim, claim_at, complete, enqueue, event, job, jobs_of, now, states, work_off};
use crate::support::{Database, at_once, wait_until};

#[test]
fn one_of_each_group_is_taken_and_the_next_when_it_is_done() {
    let database = Database::new();
    let mut conn = database.connect();
    enqueue(&mut conn, &[jobs_of("a", 3), jobs_of("b", 1)].concat());
    let first = claim_at(&mut conn, now(), 10).unwrap();
    assert_eq!(super::told(&first.jobs), [json!(1), json!(1)], "the heads of both");
    assert_eq!(claim(&mut conn, 10), [json!(null); 0], "the others wait for them");
    complete(&mut conn, now(), &first);
    assert_eq!(claim(&mut conn, 10), [json!(2)]);
}

#[test]
fn jobs_alone_wait_for_nobody() {
    let database = Database::new();
    let mut conn = database.connect();
    enqueue(&mut conn, &(0..5).map(|number| job(None, json!(number))).collect::<Vec<_>>());
    assert_eq!(claim(&mut conn, 10).len(), 5);
}

#[test]
fn groups_of_one_name_in_two_events_have_nothing_to_do_with_each_other() {
    let database = Database::new();
    let mut conn = database.connect();
    let of_event = |payload| queue::NewJob { event: event(), ..job(Some("a"), json!(payload)) };
    enqueue(&mut conn, &[of_event(1), of_event(2)]);
    assert_eq!(claim(&mut conn, 10).len(), 2);
}

#[test]
fn a_key_that_is_there_makes_no_second_job_done_or_not() {
    let database = Database::new();
    let mut conn = database.connect();
    let keyed = |group| queue::NewJob { unique_key: Some("k".to_owned()), ..job(group, json!(1)) };
    assert_eq!(enqueue(&mut conn, &[keyed(None), keyed(None)]), 1);
    assert_eq!(enqueue(&mut conn, &[keyed(Some("a"))]), 0);
    let lease = claim_at(&mut conn, now(), 10).unwrap();
    complete(&mut conn, now(), &lease);
    assert_eq!(enqueue(&mut conn, &[keyed(None)]), 0);
    let elsewhere = queue::NewJob { event: event(), ..keyed(None) };
    assert_eq!(enqueue(&mut conn, &[elsewhere]), 1);
}

#[test]
fn a_rollback_takes_the_jobs_with_it() {
    let database = Database::new();
    let mut conn = database.connect();
    enqueue(&mut conn, &jobs_of("a", 1));
    let undone: Result<(), DbError> = transaction(&mut conn, |conn| {
        queue::enqueue(conn, now(), &[job(Some("a"), json!(2)), job(None, json!(3))])?;
        Err(DbError::Busy("undone".to_owned()))
    });
    assert!(undone.is_err());
    assert_eq!(states(&database), [("CREATED".to_owned(), 1)]);
}

/// The race that loses jobs elsewhere: the last job of a group ends while the next one is being enqueued behind it. The one who enqueues stands
/// still between writing and COMMIT; the one who completes must wait for that, and then see what was written.
#[test]
fn a_job_that_is_enqueued_while_the_one_before_it_ends_is_not_lost() {
    let database = Database::new();
    let mut conn = database.connect();
    enqueue(&mut conn, &jobs_of("a", 1));
    let lease = claim_at(&mut conn, now(), 1).unwrap();
    let mut enqueuer = database.connect();
    enqueuer.batch_execute("BEGIN").unwrap();
    assert_eq!(queue::enqueue(&mut enqueuer, now(), &[job(Some("a"), json!(2))]).unwrap(), 1);
    thread::scope(|scope| {
        let completer = scope.spawn(|| complete(&mut database.connect(), now(), &lease));
        wait_until("the end of the first waits for the second", || database.waits_for_a_lock());
        enqueuer.batch_execute("COMMIT").unwrap();
        assert_eq!(completer.join().unwrap(), 1);
    });
    assert_eq!(claim(&mut conn, 10), [json!(2)]);
}

/// The same the other way around: the one who completes stands still, and the one who enqueues finds either the end or the next head.
#[test]
fn a_job_that_is_enqueued_while_its_group_is_ending_becomes_its_head() {
    for waiting in [0, 1] {
        let database = Database::new();
        let mut conn = database.connect();
        enqueue(&mut conn, &jobs_of("a", 1 + waiting));
        let lease = claim_at(&mut conn, now(), 1).unwrap();
        // A trigger holds the completion up where it has ended the job and not committed.
        let stand_still = "CREATE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS \
            $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$; \
            CREATE TRIGGER stand_still AFTER UPDATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION stand_still()";
        conn.batch_execute(stand_still).unwrap();
        let mut gate = database.connect();
        gate.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7)").unwrap();
        thread::scope(|scope| {
            let completer = scope.spawn(|| complete(&mut database.connect(), now(), &lease));
            wait_until("the completion stands still", || database.waits_for_a_lock());
            let enqueuer = scope.spawn(|| enqueue(&mut database.connect(), &[job(Some("a"), json!("late"))]));
            wait_until("the enqueue waits for it", || database.waiting_for_a_lock() == 2);
            gate.batch_execute("COMMIT").unwrap();
            assert_eq!((completer.join().unwrap(), enqueuer.join().unwrap()), (1, 1));
        });
        conn.batch_execute("DROP TRIGGER stand_still ON jobs").unwrap();
        let mut rest = Vec::new();
        while let Some(lease) = claim_at(&mut conn, after(1), 10) {
            assert_eq!(lease.jobs.len(), 1, "one at a time");
            rest.extend(super::told(&lease.jobs));
            complete(&mut conn, after(1), &lease);
        }
        let expected = if waiting == 0 { vec![json!("late")] } else { vec![json!(2), json!("late")] };
        assert_eq!(rest, expected);
    }
}

/// The head of a group ends in the middle of the statement that writes two more of it.
#[test]
fn two_jobs_that_are_enqueued_together_stay_in_order_though_their_group_ends_between_them() {
    let database = Database::new();
    let mut conn = database.connect();
    enqueue(&mut conn, &[job(Some("a"), json!("head"))]);
    let lease = claim_at(&mut conn, now(), 1).unwrap();
    // A trigger holds the writing of the second up, when the first has been written or refused.
    let stand_still = "CREATE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$; \
        CREATE TRIGGER stand_still BEFORE INSERT ON jobs FOR EACH ROW WHEN (NEW.payload = '2') EXECUTE FUNCTION stand_still()";
    conn.batch_execute(stand_still).unwrap();
    let mut gate = database.connect();
    gate.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7)").unwrap();
    thread::scope(|scope| {
        let enqueuer = scope.spawn(|| enqueue(&mut database.connect(), &jobs_of("a", 2)));
        wait_until("the second is just being written", || database.waits_for_a_lock());
        let completer = scope.spawn(|| complete(&mut database.connect(), now(), &lease));
        wait_until("the head ends, or waits for the enqueue", || completer.is_finished() || database.waiting_for_a_lock() == 2);
        gate.batch_execute("COMMIT").unwrap();
        assert_eq!((completer.join().unwrap(), enqueuer.join().unwrap()), (1, 2));
    });
    for number in [1, 2] {
        let lease = claim_at(&mut conn, after(1), 10).unwrap();
        assert_eq!(super::told(&lease.jobs), [json!(number)]);
        complete(&mut conn, after(1), &lease);
    }
}

/// Who locks the heads of several groups does so in one order, whatever order they were named in: two of them never wait for each other.
#[test]
fn the_heads_of_several_groups_are_locked_in_one_order() {
    let database = Database::new();
    let mut conn = database.connect();
    ["b", "a"].iter().for_each(|group| assert_eq!(enqueue(&mut conn, &[job(Some(group), json!(1))]), 1));
    let lease = claim_at(&mut conn, now(), 10).unwrap();
    let lock = |group: &str| format!("SELECT FROM jobs WHERE group_key = '{group}' AND is_head FOR UPDATE NOWAIT");
    let both_wait_for_the_first = |work: &(dyn Fn() + Sync)| {
        let mut gate = database.connect();
        gate.batch_execute(&format!("BEGIN; {}", lock("a"))).unwrap();
        thread::scope(|scope| {
            let worker = scope.spawn(work);
            wait_until("somebody waits for the head of a", || database.waits_for_a_lock());
            let is_free = database.connect().batch_execute(&lock("b"));
            gate.batch_execute("COMMIT").unwrap();
            worker.join().unwrap();
            assert_eq!(is_free, Ok(()), "who waits for the head of a has that of b");
        });
    };
    both_wait_for_the_first(&|| assert_eq!(enqueue(&mut database.connect(), &[job(Some("b"), json!(2)), job(Some("a"), json!(2))]), 2));
    let mut turned = lease.clone();
    turned.jobs.sort_by_key(|job| std::cmp::Reverse(job.group.clone()));
    both_wait_for_the_first(&|| assert_eq!(complete(&mut database.connect(), now(), &turned), 2));
}

/// Many write into few groups while others work them off: nothing is lost, nothing is done twice, and each writer's jobs are done in order.
#[test]
fn many_enqueue_into_the_same_groups_while_many_work_them_off() {
    const WRITERS: usize = 6;
    const EACH: usize = 60;
    let database = Database::new();
    let results = at_once(WRITERS + 3, |number| {
        let mut conn = database.connect();
        let mut done = Vec::new();
        if number < WRITERS {
            for turn in 0..EACH {
                let group = format!("g{}", turn % 3);
                let made = enqueue(&mut conn, &[job(Some(&group), json!([group, [number, turn]]))]);
                assert_eq!(made, 1);
            }
            return done;
        }
        wait_until("all is done", || {
            while let Some(lease) = claim_at(&mut conn, after(1), 4) {
                done.extend(lease.jobs.iter().map(|job| job.payload[1].clone()));
                assert_eq!(complete(&mut conn, after(1), &lease), lease.jobs.len());
            }
            let total = i64::try_from(WRITERS * EACH).unwrap();
            states(&database) == [("DONE".to_owned(), total)]
        });
        done
    });
    let mut all: Vec<String> = results.iter().flatten().map(ToString::to_string).collect();
    all.sort();
    all.dedup();
    assert_eq!((all.len(), results.iter().map(Vec::len).sum::<usize>()), (WRITERS * EACH, WRITERS * EACH));
}

#[test]
fn a_group_with_thousands_of_jobs_does_not_keep_the_small_ones_waiting() {
    let database = Database::new();
    let mut conn = database.connect();
    let hot: Vec<_> = (0..3_000).map(|number| job(Some("hot"), json!(["hot", number]))).collect();
    enqueue(&mut conn, &hot);
    let small: Vec<_> = (0..50).map(|number| job(Some(&format!("g{number}")), json!([number, 0]))).collect();
    enqueue(&mut conn, &small);
    let first = claim_at(&mut conn, now(), 100).unwrap();
    assert_eq!(first.jobs.len(), 51, "all the small ones, and the head of the large one");
    complete(&mut conn, now(), &first);
    let done = work_off(&mut conn, 10);
    let expected: Vec<_> = (1..3_000).map(|number| json!(number)).collect();
    assert_eq!(done[&json!("hot")], expected, "in order");
}

#[test]
fn a_job_that_is_given_up_lets_its_group_go_on() {
    let database = Database::new();
    let mut conn = database.connect();
    enqueue(&mut conn, &jobs_of("a", 2));
    let lease = claim_at(&mut conn, now(), 1).unwrap();
    assert!(queue::fail(&mut conn, now(), lease.token, &lease.jobs[0], "no", Fate::Retry(after(30))).unwrap());
    assert_eq!(claim(&mut conn, 10), [json!(null); 0], "until then its group waits");
    let lease = claim_at(&mut conn, after(30), 1).unwrap();
    assert_eq!((lease.jobs[0].attempt, &lease.jobs[0].payload), (2, &json!(1)));
    assert!(queue::fail(&mut conn, after(30), lease.token, &lease.jobs[0], "never", Fate::GiveUp).unwrap());
    let lease = claim_at(&mut conn, after(30), 10).unwrap();
    assert_eq!(super::told(&lease.jobs), [json!(2)]);
    let failed = queue::failures(&mut conn, 10).unwrap();
    assert_eq!((failed.len(), failed[0].error.as_str(), failed[0].attempts, failed[0].next), (1, "never", 2, None));
    // By hand it is put behind what the group has now.
    let mut put_back = |id| queue::retry_failed(&mut conn, after(40), failed[0].event, id).unwrap();
    assert_eq!(put_back(failed[0].id), PutBack::In("tests".to_owned()));
    assert_eq!((put_back(failed[0].id), put_back(JobId::new())), (PutBack::NotGivenUp, PutBack::Unknown), "once, and only what is there");
    assert!(claim_at(&mut conn, after(40), 10).is_none(), "the second is still at work");
    complete(&mut conn, after(40), &lease);
    let again = claim_at(&mut conn, after(40), 10).unwrap();
    assert_eq!((super::told(&again.jobs), again.jobs[0].attempt), (vec![json!(1)], 1));
}

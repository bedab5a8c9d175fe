//! The SQL of the queue: a contract, which consumers in any language may use. The README explains it; a test runs such consumers beside ours.
//!
//! Arrays are cast, since many drivers leave it to the server what the type of a parameter is, and `unnest` takes any.

/// Begins each transaction of a consumer. What the planner knows of the table is from another time: the plans are kept, and the table was
/// empty when they were made, or when autovacuum last saw it. Without these a plan reads the whole table for each job.
/// A node that is discouraged looks dear enough to be compiled: that takes a hundred times as long as the statement.
pub const SETTINGS: &str = "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; \
     SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_memoize = off; SET LOCAL jit = off";

/// Takes jobs of a lane: `$1` lane, `$2` not those that were due before, `$3` now, `$4` how many. Heads of groups only, so that no group
/// has two at work, and one with a hundred thousand waiting costs as much as one with a single job. A lane that is paused or rests gives none.
pub const CLAIM: &str = "SELECT event_id, id, kind, group_key, number, payload, attempts, run_at FROM jobs \
     WHERE lane = $1 AND state = 'CREATED' AND is_head AND run_at > $2 AND run_at <= $3 \
       AND NOT EXISTS (SELECT FROM job_lanes WHERE name = $1 AND (paused_at IS NOT NULL OR rests_until > $3)) \
     ORDER BY lane, run_at, event_id, id LIMIT $4 FOR UPDATE SKIP LOCKED";

/// Marks what was claimed, in the same transaction: `$1` events, `$2` ids, `$3` node, `$4` now, `$5` lease, `$6` until when.
///
/// Each job is looked up by itself (`LIMIT` keeps the planner from anything else) and reached by its place. Joined by the key, a table that
/// was empty when it was analysed is read whole, and each of its rows compared with each job. A place is one of this table only: were the
/// jobs in partitions or shards, the same place would be in each.
pub const TAKE: &str = "UPDATE jobs SET state = 'WORKING', node = $3, taken_at = $4, lease = $5, lease_until = $6, attempts = attempts + 1 \
     FROM unnest((SELECT CAST($1 AS uuid[])), (SELECT CAST($2 AS uuid[]))) AS taken (event_id, id) CROSS JOIN LATERAL (\
       SELECT ctid FROM jobs WHERE jobs.event_id = taken.event_id AND jobs.id = taken.id LIMIT 1) AS found \
     WHERE jobs.ctid = found.ctid";

/// Completes jobs, fenced: `$1` events, `$2` ids, `$3` groups, `$4` the lease, `$5` now. A job that is not returned is no longer the caller's.
///
/// In the order in which whoever enqueues into several groups locks their heads, or the two might wait for each other.
pub const COMPLETE: &str = "UPDATE jobs SET state = 'DONE', is_head = false, lease = NULL, lease_until = NULL, error = NULL, finished_at = $5 \
     FROM (SELECT * FROM unnest((SELECT CAST($1 AS uuid[])), (SELECT CAST($2 AS uuid[])), (SELECT CAST($3 AS text[]))) AS worked (event_id, id, group_key) \
         ORDER BY event_id, group_key COLLATE \"C\") AS done CROSS JOIN LATERAL (\
       SELECT ctid FROM jobs WHERE jobs.event_id = done.event_id AND jobs.id = done.id LIMIT 1) AS found \
     WHERE jobs.ctid = found.ctid AND jobs.lease = $4 AND jobs.state || '' = 'WORKING' \
     RETURNING jobs.event_id, jobs.id, jobs.group_key, jobs.number";

/// After a job of a group is over, in the same transaction and a statement of its own: makes the next one the head. `$1` events, `$2` groups,
/// `$3` numbers of those that are over, `$4` now. Returns the lane of each new head.
///
/// It must not be one statement with what ends the job: whoever enqueues into the group has its head locked, so ending the head waits for
/// them, and only a statement that begins after that wait sees what they enqueued.
pub const PROMOTE: &str = "UPDATE jobs SET is_head = true, run_at = greatest(jobs.run_at, $4) \
     FROM unnest((SELECT CAST($1 AS uuid[])), (SELECT CAST($2 AS text[])), (SELECT CAST($3 AS integer[]))) AS over (event_id, group_key, number) CROSS JOIN LATERAL (\
       SELECT ctid FROM jobs AS waiting WHERE waiting.event_id = over.event_id AND waiting.group_key = over.group_key \
         AND waiting.state = 'CREATED' AND NOT waiting.is_head AND waiting.number > over.number \
       ORDER BY waiting.event_id, waiting.group_key, waiting.number LIMIT 1) AS next \
     WHERE jobs.ctid = next.ctid RETURNING jobs.lane";

/// Puts a job back that failed, fenced: `$1` event, `$2` id, `$3` the lease, `$4` when to try again, `$5` what went wrong.
pub const RETRY: &str = "UPDATE jobs SET state = 'CREATED', lease = NULL, lease_until = NULL, run_at = $4, error = $5 \
     WHERE event_id = $1 AND id = $2 AND lease = $3 AND state || '' = 'WORKING'";

/// Gives a job up, fenced: `$1` event, `$2` id, `$3` the lease, `$4` now, `$5` what went wrong. [`PROMOTE`] follows, as after [`COMPLETE`].
pub const GIVE_UP: &str = "UPDATE jobs SET state = 'FAILED', is_head = false, lease = NULL, lease_until = NULL, finished_at = $4, error = $5 \
     WHERE event_id = $1 AND id = $2 AND lease = $3 AND state || '' = 'WORKING' RETURNING event_id, id, group_key, number";

/// The lanes that have something to do: `$1` lanes, `$2` for each, not what was due before, `$3` now. Lanes that are paused or rest are left out.
pub const READY: &str = "SELECT known.name FROM job_lanes AS known LEFT JOIN unnest(CAST($1 AS text[]), CAST($2 AS timestamptz[])) AS seen (name, before) ON seen.name = known.name \
     WHERE known.paused_at IS NULL AND coalesce(known.rests_until <= $3, true) AND (SELECT run_at FROM jobs WHERE lane = known.name AND state = 'CREATED' AND is_head \
         AND run_at > coalesce(seen.before, '-infinity') AND run_at <= $3 ORDER BY lane, run_at, event_id, id LIMIT 1) IS NOT NULL";

/// The head of a group, locked: `$1` event, `$2` group. Whoever ends it waits, and then sees what was enqueued behind it.
///
/// The order is that of the index of heads. With `=` it would be no order, and on a table that was small when this was planned the primary
/// key would do as well: all jobs of the event are read then.
pub const HEAD: &str = "SELECT number FROM jobs WHERE event_id = $1 AND group_key >= $2 AND group_key <= $2 AND is_head \
     ORDER BY group_key LIMIT 1 FOR UPDATE";

/// Whether a key is there: `$1` event, `$2` key. Ordered for the same reason.
pub const HAS_KEY: &str = "SELECT number FROM jobs WHERE event_id = $1 AND unique_key >= $2 AND unique_key <= $2 \
     ORDER BY unique_key LIMIT 1";

/// The last number that waits in a group, whose head is locked: `$1` event, `$2` group.
pub const LAST: &str = "SELECT number FROM jobs WHERE event_id = $1 AND group_key = $2 AND state = 'CREATED' AND NOT is_head \
     ORDER BY event_id DESC, group_key DESC, number DESC LIMIT 1";

/// Finds jobs whose lease has run out, and locks them: `$1` now, `$2` how many. [`RETRY`] or [`GIVE_UP`] follows, with the lease that ran out.
pub const OVERDUE: &str = "SELECT event_id, id, lease, attempts, kind FROM jobs \
     WHERE state = 'WORKING' AND lease_until <= $1 ORDER BY lease_until LIMIT $2 FOR UPDATE SKIP LOCKED";

/// Forgets jobs that were done before `$1`, at most `$2`. By the places of the rows, which nobody moves while they are locked: joined by
/// their keys, a thousand rows look like so many to the planner that it reads the whole table to find them.
pub const PRUNE: &str = "DELETE FROM jobs WHERE ctid = ANY (ARRAY (SELECT ctid FROM jobs WHERE state = 'DONE' AND finished_at < $1 \
       ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED))";

//! The statement of the sale on `orders` whose plan depends on how it is written, and what a desk sets for all of its plans. Public so
//! that the plan tests explain the very text that runs.

/// What a desk's session is set to. A plan is made once and for all values: one for `LIMIT 2` is good for any other, and PostgreSQL would
/// plan anew for each since it thinks that cheaper. The plan outlives what the planner knew when it was made, perhaps that the tables
/// are empty; so it may look rows up through indexes only, which is how a sale finds each of them.
pub const SALE_SESSION: &str =
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_memoize = off";

/// The orders that have these keys already, each looked up by itself: `LIMIT` in the lateral part keeps the planner from turning the join
/// around. If it believes that hardly any order has a key (from before the first partner came), it would read each of the event's orders with
/// a key, and compare it with all of the batch: 1,700 sales a second where 15,000 were, and falling with each sale.
///
/// The condition on the key is what matches the partial unique index.
pub const BY_KEYS: &str = "SELECT found.* FROM unnest($2, $3) AS wanted (scope, key) CROSS JOIN LATERAL (\
       SELECT id, status, buyer_name, buyer_email, items, positions, quantity, requested_quantity, total_minor, currency, partner_id, \
         access_key, idempotency_scope, idempotency_key, request_hash, expires_at, cancelled_quantity, created_at FROM orders \
       WHERE event_id = $1 AND idempotency_key IS NOT NULL AND idempotency_scope = wanted.scope AND idempotency_key = wanted.key LIMIT 1) AS found";

/// Locks holds that are over, behind `($3, $4)` in the order of their deadlines, and leaves out what others have locked. The status is a
/// literal, so that a plan for any values can use the partial index `orders_held`.
pub const DUE_SKIPPING: &str = "SELECT id, expires_at, positions FROM orders \
     WHERE event_id = $1 AND status = 'HELD' AND expires_at <= $2 AND (expires_at, id) > ($3, $4) \
     ORDER BY event_id, expires_at, id LIMIT $5 FOR UPDATE SKIP LOCKED";

/// The same, in the order of their ids as the lock order has it, and waits for those that others have locked. One that was confirmed
/// meanwhile fails the condition when PostgreSQL checks it again.
pub const DUE_WAITING: &str = "SELECT id, expires_at, positions FROM orders \
     WHERE event_id = $1 AND status = 'HELD' AND expires_at <= $2 ORDER BY event_id, id LIMIT $3 FOR UPDATE";

/// Locks the rows of these buyers, in their order, and makes those that are not there yet. A row that is there is locked by the conflict and,
/// since the condition fails, not written.
pub const LOCK_BUYERS: &str = "INSERT INTO buyers (event_id, buyer_key) SELECT $1, wanted.key FROM unnest($2) AS wanted (key) ORDER BY wanted.key \
     ON CONFLICT (event_id, buyer_key) DO UPDATE SET buyer_key = excluded.buyer_key WHERE false";

/// What these buyers have: bought, or held and not over at `$3`. Each is looked up by itself: grouped over all of them, a planner that believes that
/// hardly any order has a buyer's key reads each of the event's that has one.
pub const BUYERS_HAVE: &str = "SELECT wanted.key, (SELECT coalesce(sum(quantity), 0)::bigint FROM orders \
       WHERE event_id = $1 AND buyer_key IS NOT NULL AND buyer_key = wanted.key \
         AND (status = 'SOLD' OR (status = 'HELD' AND expires_at > $3))) AS has FROM unnest($2) AS wanted (key)";

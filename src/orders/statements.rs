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
         access_key, idempotency_scope, idempotency_key, request_hash, expires_at, created_at FROM orders \
       WHERE event_id = $1 AND idempotency_key IS NOT NULL AND idempotency_scope = wanted.scope AND idempotency_key = wanted.key LIMIT 1) AS found";

//! The statement of the sale on `orders` whose plan depends on how it is written, by name. Public so that the plan tests explain the very
//! text that runs; only `queries.rs` runs it.

/// The orders that have these keys already. The condition on the key is what matches the partial unique index. Each array is the result of a
/// subquery, so that its length is not known beforehand: for a full batch the planner would read every order of the event, if the table was
/// not analysed yet.
pub const BY_KEYS: &str = "SELECT id, status, buyer_name, buyer_email, items, positions, quantity, requested_quantity, total_minor, currency, \
     partner_id, access_key, idempotency_scope, idempotency_key, request_hash, expires_at, created_at FROM orders \
     WHERE event_id = $1 AND idempotency_key IS NOT NULL AND (idempotency_scope, idempotency_key) IN (SELECT * FROM unnest((SELECT $2), (SELECT $3)))";

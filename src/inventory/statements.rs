//! The statements whose plans the sale depends on, by name. Public so that the plan tests explain the very text that runs; only
//! `queries.rs` runs it.

/// The claim that waits for nobody.
///
/// Three things keep the planner on the partial index `tickets_available`, whatever it believes of the table:
///
/// - The status is a literal: a generic plan cannot match a parameter to the index's predicate.
/// - The type is bounded from both sides and not equal to a constant. With `ticket_type_id = $2` the planner sees that ordering by
///   (event, type, position) is ordering by (event, position), which the primary key serves too, and after the next ANALYZE it walks
///   the rows that are sold and filters them out: 10 ms a claim after 30,000 sales, and growing.
/// - The position is bounded in the same row comparison, so that the scan begins at `$3`.
pub const CLAIM_SKIPPING: &str = "SELECT position, ticket_type_id, section, \"row\", seat FROM tickets \
     WHERE event_id = $1 AND status = 'AVAILABLE' AND (ticket_type_id, position) >= ($2, $3) AND ticket_type_id <= $2 \
     ORDER BY event_id, ticket_type_id, position LIMIT $4 FOR UPDATE SKIP LOCKED";

/// The claim that waits. A row that its holder sold meanwhile fails the condition when PostgreSQL checks it again, and the next one
/// is taken in its place: `LIMIT` counts what is left after the locks.
pub const CLAIM_WAITING: &str = "SELECT position, ticket_type_id, section, \"row\", seat FROM tickets \
     WHERE event_id = $1 AND status = 'AVAILABLE' AND (ticket_type_id, position) >= ($2, $3) AND ticket_type_id <= $2 \
     ORDER BY event_id, ticket_type_id, position LIMIT $4 FOR UPDATE";

/// Marks what was dealt out. The status in the condition is a fence: a row that is not available any more is not sold again, the
/// count comes out short, and the transaction fails.
///
/// Two things keep the planner on the primary key:
///
/// - The fence is on `status || ''`. A plain `status = 'AVAILABLE'` admits the index `tickets_available`, and on a table that was not
///   analysed yet the planner takes all that is left for one row, and reads it for each sale.
/// - Each array is the result of a subquery, so that its length is not known beforehand: for a long one the planner would read the whole
///   event, sold rows and all.
pub const MARK_SOLD: &str = "UPDATE tickets SET status = 'SOLD', order_id = dealt.order_id, code = dealt.code \
     FROM unnest((SELECT $2), (SELECT $3), (SELECT $4)) AS dealt (position, order_id, code) \
     WHERE tickets.event_id = $1 AND tickets.position = dealt.position AND tickets.status || '' = 'AVAILABLE'";

/// Marks what was dealt out to holds; as [`MARK_SOLD`] in everything else.
pub const MARK_HELD: &str = "UPDATE tickets SET status = 'HELD', order_id = dealt.order_id, held_until = dealt.held_until \
     FROM unnest((SELECT $2), (SELECT $3), (SELECT $4)) AS dealt (position, order_id, held_until) \
     WHERE tickets.event_id = $1 AND tickets.position = dealt.position AND tickets.status || '' = 'AVAILABLE'";

/// Sells what an order holds. The fence is on the order, too: a hold that ran out may be another order's by now.
pub const MARK_CONFIRMED: &str = "UPDATE tickets SET status = 'SOLD', held_until = NULL, code = dealt.code \
     FROM unnest((SELECT $2), (SELECT $3), (SELECT $4)) AS dealt (position, order_id, code) \
     WHERE tickets.event_id = $1 AND tickets.position = dealt.position AND tickets.order_id = dealt.order_id \
       AND tickets.status || '' = 'HELD'";

/// Puts tickets of orders back on sale, from the state `$4`. A ticket that was used at the door stays.
pub const GIVE_BACK: &str = "UPDATE tickets SET status = 'AVAILABLE', order_id = NULL, held_until = NULL, code = NULL \
     FROM unnest((SELECT $2), (SELECT $3)) AS back (position, order_id) \
     WHERE tickets.event_id = $1 AND tickets.position = back.position AND tickets.order_id = back.order_id \
       AND tickets.status || '' = $4 AND tickets.used_at IS NULL \
     RETURNING tickets.position, tickets.ticket_type_id, tickets.section, tickets.\"row\", tickets.seat";

/// Locks these very tickets, as far as they are on sale and nobody has them locked.
pub const CLAIM_SAME: &str = "SELECT position, ticket_type_id, section, \"row\", seat FROM tickets \
     WHERE event_id = $1 AND position = ANY ($2) AND status || '' = 'AVAILABLE' ORDER BY event_id, position FOR UPDATE SKIP LOCKED";

/// Reads the two partial indexes, not the table: its cost is what is left, not what was sold.
///
/// The order (which `OFFSET 0` keeps) is that of the index. Without it a planner that remembers the first minutes of the sale, when nearly
/// everything was left, reads the whole table.
pub const LEFT: &str = "SELECT ticket_type_id, sum(available)::bigint AS available, sum(held)::bigint AS held FROM (\
       SELECT ticket_type_id, count(*) AS available, 0 AS held FROM (\
         SELECT ticket_type_id FROM tickets WHERE event_id = $1 AND status = 'AVAILABLE' \
         ORDER BY event_id, ticket_type_id, position OFFSET 0) AS shelf GROUP BY ticket_type_id \
     UNION ALL \
       SELECT ticket_type_id, count(*) FILTER (WHERE held_until <= $2), count(*) FILTER (WHERE held_until > $2) FROM tickets \
       WHERE event_id = $1 AND status = 'HELD' GROUP BY ticket_type_id) AS shelves GROUP BY ticket_type_id";

/// Each subquery stops at the first row of a partial index. They are not `EXISTS`, which ignores an order: without the index's order a
/// planner that takes most tickets for available looks for one in the table, where all that were sold come first.
pub const ON_SHELF: &str = "SELECT wanted.id FROM unnest($1) AS wanted (id) WHERE \
       (SELECT position FROM tickets WHERE event_id = wanted.id AND status = 'AVAILABLE' \
        ORDER BY event_id, ticket_type_id, position LIMIT 1) IS NOT NULL \
     OR (SELECT position FROM tickets WHERE event_id = wanted.id AND status = 'HELD' AND held_until <= $2 \
        ORDER BY event_id, ticket_type_id, held_until LIMIT 1) IS NOT NULL";

ALTER TABLE events
    ADD COLUMN max_per_buyer integer,
    ADD COLUMN checkout text NOT NULL DEFAULT 'at_once',
    ADD COLUMN buyers_cancel_until timestamptz,
    ADD CONSTRAINT events_max_per_buyer_positive CHECK (max_per_buyer >= 1),
    ADD CONSTRAINT events_checkout_known CHECK (checkout IN ('at_once', 'hold'));

COMMENT ON COLUMN events.max_per_buyer IS 'Most tickets that one buyer may have, held and bought, over all orders; NULL: no limit.';
COMMENT ON COLUMN events.checkout IS 'What the page''s button does: at_once sells, hold keeps the tickets for a while until the buyer confirms.';
COMMENT ON COLUMN events.buyers_cancel_until IS 'Until when buyers may give bought tickets back by their link; NULL: they may not.';

ALTER TABLE ticket_types
    ADD COLUMN sales_open_at timestamptz,
    ADD COLUMN sales_close_at timestamptz,
    ADD CONSTRAINT ticket_types_window_order CHECK (sales_open_at IS NULL OR sales_close_at IS NULL OR sales_open_at < sales_close_at);

COMMENT ON COLUMN ticket_types.sales_open_at IS 'First moment of this type''s sale, within the event''s; NULL: the event''s.';
COMMENT ON COLUMN ticket_types.sales_close_at IS 'First moment after this type''s sale; NULL: the event''s.';

ALTER TABLE tickets
    ADD COLUMN used_at timestamptz,
    ADD CONSTRAINT tickets_used_if_sold CHECK (used_at IS NULL OR status = 'SOLD');

COMMENT ON COLUMN tickets.used_at IS 'When its holder came through the door. A used ticket is not taken back.';

ALTER TABLE orders
    ADD COLUMN buyer_key text,
    ADD COLUMN cancelled_quantity integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT orders_cancelled_not_negative CHECK (cancelled_quantity >= 0);

COMMENT ON COLUMN orders.buyer_key IS 'The buyer''s e-mail address in its normal form, where the event limits what one buyer may have; NULL elsewhere.';
COMMENT ON COLUMN orders.cancelled_quantity IS 'How many single tickets of it were given back; they are no longer in items, positions, quantity and total_minor.';
COMMENT ON COLUMN orders.expires_at IS 'Deadline of the hold, and stays as what it was once the order is bought or over; NULL: it was bought at once.';

CREATE INDEX orders_of_buyer ON orders (event_id, buyer_key) WHERE buyer_key IS NOT NULL;
-- The holds, the first to run out first. Sales at once are never in it.
CREATE INDEX orders_held ON orders (event_id, expires_at, id) WHERE status = 'HELD';

-- Two orders of one buyer must be counted one after the other, whichever process sells them, and there is no row of the buyer's that
-- both could lock: this is one. It is written once a buyer, and only for events that limit buyers.
CREATE TABLE buyers (
    event_id  uuid NOT NULL,
    buyer_key text NOT NULL,
    PRIMARY KEY (event_id, buyer_key)
);

COMMENT ON TABLE buyers IS 'A row to lock for each buyer of an event that limits buyers. What a buyer has is counted from orders.';

CREATE TABLE order_history (
    event_id   uuid NOT NULL,
    order_id   uuid NOT NULL,
    number     integer NOT NULL,
    at         timestamptz NOT NULL,
    actor_kind text NOT NULL,
    actor_name text,
    change     text NOT NULL,
    positions  integer[] NOT NULL,
    PRIMARY KEY (event_id, order_id, number),
    CONSTRAINT order_history_number_positive CHECK (number >= 1),
    CONSTRAINT order_history_actor_known CHECK (actor_kind IN ('buyer', 'partner', 'admin', 'clock'))
);

COMMENT ON TABLE order_history IS 'What became of an order after it was made. How it was made stands in orders, so that a sale writes nothing here.';
COMMENT ON COLUMN order_history.number IS 'Place in the order''s life, from 1; given out under the lock on the order.';
COMMENT ON COLUMN order_history.actor_name IS 'Name of the partner or address of the admin at the time; NULL for the buyer and the clock.';
COMMENT ON COLUMN order_history.change IS 'What happened: a transition of orders/states.rs, or "used".';
COMMENT ON COLUMN order_history.positions IS 'The tickets that it happened to.';

-- No foreign key points at tickets or orders, nor from them: a key onto a hot row costs every sale a shared lock, and makes
-- rows look locked to SKIP LOCKED. `boxoffice audit` checks what the keys would have.
CREATE TABLE tickets (
    event_id       uuid NOT NULL,
    position       integer NOT NULL,
    ticket_type_id uuid NOT NULL,
    status         text NOT NULL DEFAULT 'AVAILABLE',
    section        text,
    "row"          text,
    seat           text,
    external_ref   text,
    order_id       uuid,
    held_until     timestamptz,
    code           text,
    PRIMARY KEY (event_id, position),
    CONSTRAINT tickets_position_positive CHECK (position >= 1),
    CONSTRAINT tickets_status_known CHECK (status IN ('AVAILABLE', 'HELD', 'SOLD', 'BLOCKED')),
    CONSTRAINT tickets_order_iff_taken CHECK ((status IN ('HELD', 'SOLD')) = (order_id IS NOT NULL)),
    CONSTRAINT tickets_deadline_iff_held CHECK ((status = 'HELD') = (held_until IS NOT NULL)),
    CONSTRAINT tickets_code_iff_sold CHECK ((status = 'SOLD') = (code IS NOT NULL))
);

-- The claim walks this index in its own order; sold rows are not in it.
CREATE INDEX tickets_available ON tickets (event_id, ticket_type_id, position) WHERE status = 'AVAILABLE';
CREATE INDEX tickets_held ON tickets (event_id, ticket_type_id, held_until) WHERE status = 'HELD';
-- A seat exists once in an event, whatever its type; so does a reference of the loading system.
CREATE UNIQUE INDEX tickets_seat_key ON tickets (event_id, coalesce(section, ''), coalesce("row", ''), seat) WHERE seat IS NOT NULL;
CREATE UNIQUE INDEX tickets_external_ref_key ON tickets (event_id, external_ref) WHERE external_ref IS NOT NULL;

COMMENT ON TABLE tickets IS 'One row a ticket, there before anyone buys it. Only src/inventory writes it.';
COMMENT ON COLUMN tickets.position IS 'Place in the order in which the event''s tickets were loaded, from 1: the claim takes the lowest first.';
COMMENT ON COLUMN tickets.external_ref IS 'The loading system''s own name of the ticket: the same reference twice is the same ticket.';
COMMENT ON COLUMN tickets.order_id IS 'The live order that has it; set exactly when HELD or SOLD.';
COMMENT ON COLUMN tickets.held_until IS 'Deadline of the hold; from then on the ticket is available to the next claim.';
COMMENT ON COLUMN tickets.code IS 'What the door checks: the position, a hyphen and 80 random bits, so that it is found by primary key.';

CREATE TABLE orders (
    event_id           uuid NOT NULL,
    id                 uuid NOT NULL,
    status             text NOT NULL,
    buyer_name         text NOT NULL,
    buyer_email        text NOT NULL,
    items              jsonb NOT NULL,
    positions          integer[] NOT NULL,
    quantity           integer NOT NULL,
    requested_quantity integer NOT NULL,
    total_minor        bigint NOT NULL,
    currency           text NOT NULL,
    channel            text NOT NULL,
    partner_id         uuid,
    access_key         text NOT NULL,
    idempotency_scope  text NOT NULL,
    idempotency_key    text,
    request_hash       bytea,
    expires_at         timestamptz,
    created_at         timestamptz NOT NULL,
    PRIMARY KEY (event_id, id),
    CONSTRAINT orders_status_known CHECK (status IN ('HELD', 'SOLD', 'CANCELLED', 'EXPIRED')),
    CONSTRAINT orders_channel_known CHECK (channel IN ('web', 'api')),
    CONSTRAINT orders_partner_iff_api CHECK ((channel = 'api') = (partner_id IS NOT NULL)),
    CONSTRAINT orders_hash_iff_key CHECK ((idempotency_key IS NULL) = (request_hash IS NULL)),
    CONSTRAINT orders_deadline_if_held CHECK (status <> 'HELD' OR expires_at IS NOT NULL),
    CONSTRAINT orders_quantity_positive CHECK (quantity >= 1 AND quantity <= requested_quantity),
    CONSTRAINT orders_position_a_ticket CHECK (cardinality(positions) = quantity),
    CONSTRAINT orders_total_not_negative CHECK (total_minor >= 0)
);

CREATE UNIQUE INDEX orders_idempotency_key ON orders (event_id, idempotency_scope, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX orders_of_partner ON orders (event_id, partner_id, id) WHERE partner_id IS NOT NULL;

COMMENT ON TABLE orders IS 'What was agreed with a buyer. Ids are UUIDv7, so the primary key lists an event''s orders by time.';
COMMENT ON COLUMN orders.items IS 'The lines as agreed: [{"ticket_type", "name", "quantity", "unit_price_minor"}].';
COMMENT ON COLUMN orders.positions IS 'The tickets that the order got, by position; saves an index on tickets.order_id in every sale.';
COMMENT ON COLUMN orders.requested_quantity IS 'What the buyer asked for; more than quantity only if fewer were accepted.';
COMMENT ON COLUMN orders.total_minor IS 'Sum of the lines in minor units of currency.';
COMMENT ON COLUMN orders.access_key IS 'The unguessable part of the buyer''s link.';
COMMENT ON COLUMN orders.idempotency_scope IS 'Whose keys these are: a partner''s id, or web.';
COMMENT ON COLUMN orders.request_hash IS 'SHA-256 of the request, to refuse the same key with another body.';

CREATE TABLE inventory_loads (
    event_id        uuid NOT NULL,
    id              uuid NOT NULL,
    source          text NOT NULL,
    loaded_by       text NOT NULL,
    report          jsonb NOT NULL,
    idempotency_key text,
    request_hash    bytea,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (event_id, id),
    CONSTRAINT inventory_loads_hash_iff_key CHECK ((idempotency_key IS NULL) = (request_hash IS NULL))
);

CREATE UNIQUE INDEX inventory_loads_idempotency_key ON inventory_loads (event_id, loaded_by, idempotency_key) WHERE idempotency_key IS NOT NULL;

COMMENT ON TABLE inventory_loads IS 'Every load that changed the stock, with its report: the answer to the same Idempotency-Key.';
COMMENT ON COLUMN inventory_loads.source IS 'count, or csv.';
COMMENT ON COLUMN inventory_loads.loaded_by IS 'Who loaded, and whose keys these are: partner:ID, admin:ID or command-line.';

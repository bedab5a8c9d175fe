CREATE TABLE webhook_endpoints (
    id              uuid PRIMARY KEY,
    partner_id      uuid NOT NULL CONSTRAINT webhook_endpoints_partner_id_fkey REFERENCES partners (id) ON DELETE CASCADE,
    url             text NOT NULL,
    secret          bytea NOT NULL,
    kinds           text[] NOT NULL,
    all_orders      boolean NOT NULL,
    failing_since   timestamptz,
    disabled_at     timestamptz,
    disabled_reason text,
    created_at      timestamptz NOT NULL,
    CONSTRAINT webhook_endpoints_secret_long CHECK (length(secret) >= 24),
    CONSTRAINT webhook_endpoints_kinds_some CHECK (cardinality(kinds) >= 1),
    CONSTRAINT webhook_endpoints_reason_iff_disabled CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
);

CREATE INDEX webhook_endpoints_of_partner ON webhook_endpoints (partner_id, id);

COMMENT ON TABLE webhook_endpoints IS 'Where partners are told of what happens. Small: a reference table on Citus.';
COMMENT ON COLUMN webhook_endpoints.secret IS 'What messages are signed with; the partner was shown it once.';
COMMENT ON COLUMN webhook_endpoints.kinds IS 'What it is told of: order.sold, order.held, order.cancelled, order.expired, event.sold_out.';
COMMENT ON COLUMN webhook_endpoints.all_orders IS 'It is told of everybody''s orders, not only of its partner''s.';
COMMENT ON COLUMN webhook_endpoints.failing_since IS 'Since when no message has been taken; NULL: the last one was.';

CREATE TABLE webhook_deliveries (
    event_id        uuid NOT NULL,
    id              uuid NOT NULL,
    endpoint_id     uuid NOT NULL,
    kind            text NOT NULL,
    body            text NOT NULL,
    state           text NOT NULL,
    attempts        integer NOT NULL,
    response_status integer,
    response        text,
    error           text,
    created_at      timestamptz NOT NULL,
    attempted_at    timestamptz NOT NULL,
    PRIMARY KEY (event_id, id),
    CONSTRAINT webhook_deliveries_state_known CHECK (state IN ('PENDING', 'DELIVERED', 'FAILED')),
    CONSTRAINT webhook_deliveries_attempts_positive CHECK (attempts >= 1)
);

CREATE INDEX webhook_deliveries_of_endpoint ON webhook_deliveries (endpoint_id, id);
CREATE INDEX webhook_deliveries_attempted_at ON webhook_deliveries (attempted_at);

COMMENT ON TABLE webhook_deliveries IS 'Every message that was tried to be delivered, and what came of the last try.';
COMMENT ON COLUMN webhook_deliveries.id IS 'The message''s id, the same on every try.';
COMMENT ON COLUMN webhook_deliveries.body IS 'What is sent, byte for byte.';
COMMENT ON COLUMN webhook_deliveries.response IS 'The beginning of the answer''s body.';

ALTER TABLE job_lanes ADD COLUMN rests_until timestamptz;

COMMENT ON COLUMN job_lanes.rests_until IS 'Nobody takes jobs of this lane before: its receiver did not answer.';

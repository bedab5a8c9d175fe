CREATE TABLE events (
    id             uuid PRIMARY KEY,
    slug           text NOT NULL CONSTRAINT events_slug_key UNIQUE,
    name           text NOT NULL,
    venue          text,
    starts_at      timestamptz,
    time_zone      text NOT NULL DEFAULT 'UTC',
    currency       text NOT NULL,
    sales_open_at  timestamptz,
    sales_close_at timestamptz,
    state          text NOT NULL DEFAULT 'on_sale',
    max_per_order  integer NOT NULL DEFAULT 100,
    show_counts    boolean NOT NULL DEFAULT true,
    created_at     timestamptz NOT NULL,
    CONSTRAINT events_slug_form CHECK (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$' AND length(slug) <= 80),
    CONSTRAINT events_state_known CHECK (state IN ('draft', 'on_sale', 'paused', 'closed', 'cancelled')),
    CONSTRAINT events_currency_form CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT events_window_order CHECK (sales_open_at IS NULL OR sales_close_at IS NULL OR sales_open_at < sales_close_at),
    CONSTRAINT events_max_per_order_positive CHECK (max_per_order >= 1)
);

COMMENT ON TABLE events IS 'What tickets are sold for. Small, and read by every sale: a reference table on Citus.';
COMMENT ON COLUMN events.slug IS 'The name in URLs: lower-case letters, digits and single hyphens.';
COMMENT ON COLUMN events.time_zone IS 'IANA zone in which people read this event''s times.';
COMMENT ON COLUMN events.currency IS 'ISO 4217 code of every price of the event.';
COMMENT ON COLUMN events.sales_open_at IS 'First moment of the sale; NULL: open at once.';
COMMENT ON COLUMN events.sales_close_at IS 'First moment after the sale; NULL: never closes.';
COMMENT ON COLUMN events.max_per_order IS 'Most tickets in one order, summed over its lines.';
COMMENT ON COLUMN events.show_counts IS 'Whether the public sees how many are left, or only whether any are.';

CREATE TABLE ticket_types (
    event_id    uuid NOT NULL,
    id          uuid NOT NULL,
    code        text NOT NULL,
    name        text NOT NULL,
    price_minor bigint NOT NULL,
    sort_order  integer NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (event_id, id),
    CONSTRAINT ticket_types_event_id_code_key UNIQUE (event_id, code),
    CONSTRAINT ticket_types_event_id_fkey FOREIGN KEY (event_id) REFERENCES events (id),
    CONSTRAINT ticket_types_code_form CHECK (code ~ '^[a-z0-9]+([_-][a-z0-9]+)*$' AND length(code) <= 40),
    CONSTRAINT ticket_types_price_not_negative CHECK (price_minor >= 0)
);

COMMENT ON TABLE ticket_types IS 'What a ticket of an event can be, and what it costs.';
COMMENT ON COLUMN ticket_types.code IS 'The name in the API and in CSV files: lower-case letters, digits, single - or _.';
COMMENT ON COLUMN ticket_types.price_minor IS 'Price in minor units of the event''s currency (cents, where it has cents).';
COMMENT ON COLUMN ticket_types.sort_order IS 'Place on the event''s page, from 1.';

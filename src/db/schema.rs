// @generated automatically by Diesel CLI.

diesel::table! {
    admin_sessions (token_hash) {
        /// SHA-256 of the cookie; the cookie itself is not stored.
        token_hash -> Bytea,
        admin_id -> Uuid,
        /// What each form of the session sends back, so that no other site can post in its name.
        csrf_token -> Text,
        created_at -> Timestamptz,
        expires_at -> Timestamptz,
    }
}

diesel::table! {
    admins (id) {
        id -> Uuid,
        email -> Text,
        /// Argon2id in PHC form, with its salt and costs.
        password_hash -> Text,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    /// A row to lock for each buyer of an event that limits buyers. What a buyer has is counted from orders.
    buyers (event_id, buyer_key) {
        event_id -> Uuid,
        buyer_key -> Text,
    }
}

diesel::table! {
    /// What tickets are sold for. Small, and read by every sale: a reference table on Citus.
    events (id) {
        id -> Uuid,
        /// The name in URLs: lower-case letters, digits and single hyphens.
        slug -> Text,
        name -> Text,
        venue -> Nullable<Text>,
        starts_at -> Nullable<Timestamptz>,
        /// IANA zone in which people read this event's times.
        time_zone -> Text,
        /// ISO 4217 code of every price of the event.
        currency -> Text,
        /// First moment of the sale; NULL: open at once.
        sales_open_at -> Nullable<Timestamptz>,
        /// First moment after the sale; NULL: never closes.
        sales_close_at -> Nullable<Timestamptz>,
        state -> Text,
        /// Most tickets in one order, summed over its lines.
        max_per_order -> Int4,
        /// Whether the public sees how many are left, or only whether any are.
        show_counts -> Bool,
        created_at -> Timestamptz,
        /// Most tickets that one buyer may have, held and bought, over all orders; NULL: no limit.
        max_per_buyer -> Nullable<Int4>,
        /// What the page's button does: at_once sells, hold keeps the tickets for a while until the buyer confirms.
        checkout -> Text,
        /// Until when buyers may give bought tickets back by their link; NULL: they may not.
        buyers_cancel_until -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Every load that changed the stock, with its report: the answer to the same Idempotency-Key.
    inventory_loads (event_id, id) {
        event_id -> Uuid,
        id -> Uuid,
        /// count, or csv.
        source -> Text,
        /// Who loaded, and whose keys these are: partner:ID, admin:ID or command-line.
        loaded_by -> Text,
        report -> Jsonb,
        idempotency_key -> Nullable<Text>,
        request_hash -> Nullable<Bytea>,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    /// What is worked side by side: a kind of job, or the jobs for one receiver. A lane that is stuck holds up no other.
    job_lanes (name) {
        name -> Text,
        /// Set while nobody is to take jobs of this lane.
        paused_at -> Nullable<Timestamptz>,
        created_at -> Timestamptz,
        /// Nobody takes jobs of this lane before: its receiver did not answer.
        rests_until -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// What is still to be done, and was done of late. Written in the transaction that makes it necessary, worked by any number of consumers.
    jobs (event_id, id) {
        /// The event that it is about; all zeros for none.
        event_id -> Uuid,
        id -> Uuid,
        lane -> Text,
        kind -> Text,
        /// Jobs of one group of one event run one at a time, in the order of their numbers.
        group_key -> Text,
        /// Place in the group, among those that are not over.
        number -> Int4,
        /// It is the one of its group that runs, or is next.
        is_head -> Bool,
        /// A second job of the event with this key is not made.
        unique_key -> Nullable<Text>,
        payload -> Jsonb,
        state -> Text,
        /// Not before then.
        run_at -> Timestamptz,
        /// How often it was taken.
        attempts -> Int4,
        /// Who took it last.
        node -> Nullable<Text>,
        taken_at -> Nullable<Timestamptz>,
        /// The fence of the attempt at hand: whoever has another may not complete it.
        lease -> Nullable<Uuid>,
        /// From then on whoever took it is taken for dead, and others may take it.
        lease_until -> Nullable<Timestamptz>,
        /// What went wrong the last time.
        error -> Nullable<Text>,
        finished_at -> Nullable<Timestamptz>,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    /// What became of an order after it was made. How it was made stands in orders, so that a sale writes nothing here.
    order_history (event_id, order_id, number) {
        event_id -> Uuid,
        order_id -> Uuid,
        /// Place in the order's life, from 1; given out under the lock on the order.
        number -> Int4,
        at -> Timestamptz,
        actor_kind -> Text,
        /// Name of the partner or address of the admin at the time; NULL for the buyer and the clock.
        actor_name -> Nullable<Text>,
        /// What happened: a transition of orders/states.rs, or "used".
        change -> Text,
        /// The tickets that it happened to.
        positions -> Array<Nullable<Int4>>,
    }
}

diesel::table! {
    /// What was agreed with a buyer. Ids are UUIDv7, so the primary key lists an event's orders by time.
    orders (event_id, id) {
        event_id -> Uuid,
        id -> Uuid,
        status -> Text,
        buyer_name -> Text,
        buyer_email -> Text,
        /// The lines as agreed: [{"ticket_type", "name", "quantity", "unit_price_minor"}].
        items -> Jsonb,
        /// The tickets that the order got, by position; saves an index on tickets.order_id in every sale.
        positions -> Array<Nullable<Int4>>,
        quantity -> Int4,
        /// What the buyer asked for; more than quantity only if fewer were accepted.
        requested_quantity -> Int4,
        /// Sum of the lines in minor units of currency.
        total_minor -> Int8,
        currency -> Text,
        channel -> Text,
        partner_id -> Nullable<Uuid>,
        /// The unguessable part of the buyer's link.
        access_key -> Text,
        /// Whose keys these are: a partner's id, or web.
        idempotency_scope -> Text,
        idempotency_key -> Nullable<Text>,
        /// SHA-256 of the request, to refuse the same key with another body.
        request_hash -> Nullable<Bytea>,
        /// Deadline of the hold, and stays as what it was once the order is bought or over; NULL: it was bought at once.
        expires_at -> Nullable<Timestamptz>,
        created_at -> Timestamptz,
        /// The buyer's e-mail address in its normal form, where the event limits what one buyer may have; NULL elsewhere.
        buyer_key -> Nullable<Text>,
        /// How many single tickets of it were given back; they are no longer in items, positions, quantity and total_minor.
        cancelled_quantity -> Int4,
    }
}

diesel::table! {
    partner_keys (key_hash) {
        /// SHA-256 of the key. The key has 160 random bits, so a fast hash is enough, and it is shown once.
        key_hash -> Bytea,
        partner_id -> Uuid,
        /// What the key may do: read, sell, admin.
        scopes -> Array<Nullable<Text>>,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    partners (id) {
        id -> Uuid,
        name -> Text,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    /// What a ticket of an event can be, and what it costs.
    ticket_types (event_id, id) {
        event_id -> Uuid,
        id -> Uuid,
        /// The name in the API and in CSV files: lower-case letters, digits, single - or _.
        code -> Text,
        name -> Text,
        /// Price in minor units of the event's currency (cents, where it has cents).
        price_minor -> Int8,
        /// Place on the event's page, from 1.
        sort_order -> Int4,
        created_at -> Timestamptz,
        /// First moment of this type's sale, within the event's; NULL: the event's.
        sales_open_at -> Nullable<Timestamptz>,
        /// First moment after this type's sale; NULL: the event's.
        sales_close_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// One row a ticket, there before anyone buys it. Only src/inventory writes it.
    tickets (event_id, position) {
        event_id -> Uuid,
        /// Place in the order in which the event's tickets were loaded, from 1: the claim takes the lowest first.
        position -> Int4,
        ticket_type_id -> Uuid,
        status -> Text,
        section -> Nullable<Text>,
        row -> Nullable<Text>,
        seat -> Nullable<Text>,
        /// The loading system's own name of the ticket: the same reference twice is the same ticket.
        external_ref -> Nullable<Text>,
        /// The live order that has it; set exactly when HELD or SOLD.
        order_id -> Nullable<Uuid>,
        /// Deadline of the hold; from then on the ticket is available to the next claim.
        held_until -> Nullable<Timestamptz>,
        /// What the door checks: the position, a hyphen and 80 random bits, so that it is found by primary key.
        code -> Nullable<Text>,
        /// When its holder came through the door. A used ticket is not taken back.
        used_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Every message that was tried to be delivered, and what came of the last try.
    webhook_deliveries (event_id, id) {
        event_id -> Uuid,
        /// The message's id, the same on every try.
        id -> Uuid,
        endpoint_id -> Uuid,
        kind -> Text,
        /// What is sent, byte for byte.
        body -> Text,
        state -> Text,
        attempts -> Int4,
        response_status -> Nullable<Int4>,
        /// The beginning of the answer's body.
        response -> Nullable<Text>,
        error -> Nullable<Text>,
        created_at -> Timestamptz,
        attempted_at -> Timestamptz,
    }
}

diesel::table! {
    /// Where partners are told of what happens. Small: a reference table on Citus.
    webhook_endpoints (id) {
        id -> Uuid,
        partner_id -> Uuid,
        url -> Text,
        /// What messages are signed with; the partner was shown it once.
        secret -> Bytea,
        /// What it is told of: order.sold, order.held, order.cancelled, order.expired, event.sold_out.
        kinds -> Array<Nullable<Text>>,
        /// It is told of everybody's orders, not only of its partner's.
        all_orders -> Bool,
        /// Since when no message has been taken; NULL: the last one was.
        failing_since -> Nullable<Timestamptz>,
        disabled_at -> Nullable<Timestamptz>,
        disabled_reason -> Nullable<Text>,
        created_at -> Timestamptz,
    }
}

diesel::joinable!(admin_sessions -> admins (admin_id));
diesel::joinable!(partner_keys -> partners (partner_id));
diesel::joinable!(ticket_types -> events (event_id));
diesel::joinable!(webhook_endpoints -> partners (partner_id));

diesel::allow_tables_to_appear_in_same_query!(
    admin_sessions,
    admins,
    buyers,
    events,
    inventory_loads,
    job_lanes,
    jobs,
    order_history,
    orders,
    partner_keys,
    partners,
    ticket_types,
    tickets,
    webhook_deliveries,
    webhook_endpoints,
);

DROP TABLE order_history;
DROP TABLE buyers;
DROP INDEX orders_held;
DROP INDEX orders_of_buyer;
COMMENT ON COLUMN orders.expires_at IS NULL;
ALTER TABLE orders DROP COLUMN buyer_key, DROP COLUMN cancelled_quantity;
ALTER TABLE tickets DROP COLUMN used_at;
ALTER TABLE ticket_types DROP COLUMN sales_open_at, DROP COLUMN sales_close_at;
ALTER TABLE events DROP COLUMN max_per_buyer, DROP COLUMN checkout, DROP COLUMN buyers_cancel_until;

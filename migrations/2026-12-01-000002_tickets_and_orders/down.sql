DROP TABLE inventory_loads;
DROP TABLE orders;
DROP TABLE tickets;

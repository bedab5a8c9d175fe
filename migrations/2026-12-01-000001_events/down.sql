DROP TABLE ticket_types;
DROP TABLE events;

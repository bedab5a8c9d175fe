ALTER TABLE job_lanes DROP COLUMN rests_until;
DROP TABLE webhook_deliveries;
DROP TABLE webhook_endpoints;

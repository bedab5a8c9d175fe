DROP TABLE jobs;
DROP TABLE job_lanes;

CREATE TABLE job_lanes (
    name       text PRIMARY KEY,
    paused_at  timestamptz,
    created_at timestamptz NOT NULL
);

COMMENT ON TABLE job_lanes IS 'What is worked side by side: a kind of job, or the jobs for one receiver. A lane that is stuck holds up no other.';
COMMENT ON COLUMN job_lanes.paused_at IS 'Set while nobody is to take jobs of this lane.';

CREATE TABLE jobs (
    event_id    uuid NOT NULL,
    id          uuid NOT NULL,
    lane        text NOT NULL,
    kind        text NOT NULL,
    group_key   text NOT NULL,
    number      integer NOT NULL,
    is_head     boolean NOT NULL,
    unique_key  text,
    payload     jsonb NOT NULL,
    state       text NOT NULL DEFAULT 'CREATED',
    run_at      timestamptz NOT NULL,
    attempts    integer NOT NULL DEFAULT 0,
    node        text,
    taken_at    timestamptz,
    lease       uuid,
    lease_until timestamptz,
    error       text,
    finished_at timestamptz,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (event_id, id),
    CONSTRAINT jobs_state_known CHECK (state IN ('CREATED', 'WORKING', 'DONE', 'FAILED')),
    CONSTRAINT jobs_lease_iff_working CHECK ((state = 'WORKING') = (lease IS NOT NULL) AND (lease IS NULL) = (lease_until IS NULL)),
    CONSTRAINT jobs_finished_iff_over CHECK ((state IN ('DONE', 'FAILED')) = (finished_at IS NOT NULL)),
    CONSTRAINT jobs_head_if_working CHECK (state <> 'WORKING' OR is_head),
    CONSTRAINT jobs_no_head_if_over CHECK (state NOT IN ('DONE', 'FAILED') OR NOT is_head)
);

-- What can be taken: the head of each group, by lane and time. However many jobs wait behind a head, they are not in it.
CREATE INDEX jobs_ready ON jobs (lane, run_at, event_id, id) WHERE state = 'CREATED' AND is_head;
-- A group has one head: the job that runs, or is next. An enqueue that races the end of the last job meets this.
CREATE UNIQUE INDEX jobs_head ON jobs (event_id, group_key) WHERE is_head;
CREATE INDEX jobs_waiting ON jobs (event_id, group_key, number) WHERE state = 'CREATED' AND NOT is_head;
CREATE UNIQUE INDEX jobs_unique_key ON jobs (event_id, unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX jobs_leased ON jobs (lease_until) WHERE state = 'WORKING';
CREATE INDEX jobs_done ON jobs (finished_at) WHERE state = 'DONE';
CREATE INDEX jobs_failed ON jobs (finished_at) WHERE state = 'FAILED';

COMMENT ON TABLE jobs IS 'What is still to be done, and was done of late. Written in the transaction that makes it necessary, worked by any number of consumers.';
COMMENT ON COLUMN jobs.event_id IS 'The event that it is about; all zeros for none.';
COMMENT ON COLUMN jobs.group_key IS 'Jobs of one group of one event run one at a time, in the order of their numbers.';
COMMENT ON COLUMN jobs.number IS 'Place in the group, among those that are not over.';
COMMENT ON COLUMN jobs.is_head IS 'It is the one of its group that runs, or is next.';
COMMENT ON COLUMN jobs.unique_key IS 'A second job of the event with this key is not made.';
COMMENT ON COLUMN jobs.run_at IS 'Not before then.';
COMMENT ON COLUMN jobs.attempts IS 'How often it was taken.';
COMMENT ON COLUMN jobs.node IS 'Who took it last.';
COMMENT ON COLUMN jobs.lease IS 'The fence of the attempt at hand: whoever has another may not complete it.';
COMMENT ON COLUMN jobs.lease_until IS 'From then on whoever took it is taken for dead, and others may take it.';
COMMENT ON COLUMN jobs.error IS 'What went wrong the last time.';

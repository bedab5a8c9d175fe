"""A consumer of the job queue in another language, by the contract in the README.

It claims with SQLAlchemy's own words, and runs the other statements as the contract has them. Told on its first line of input what to do,
it says on its output what it has done; its input's end ends it.
"""

import json
import re
import select
import sys
import uuid
from datetime import datetime, timedelta, timezone

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

LEASE = timedelta(minutes=10)
# A transaction that met another one is run again; PostgreSQL calls that 40P01 or 40001.
TRIES_MAX = 5
POLL_SECS = 0.02

schema = sa.MetaData()
jobs = sa.Table(
    "jobs",
    schema,
    sa.Column("event_id", sa.Uuid, primary_key=True),
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("lane", sa.Text),
    sa.Column("kind", sa.Text),
    sa.Column("group_key", sa.Text),
    sa.Column("number", sa.Integer),
    sa.Column("is_head", sa.Boolean),
    sa.Column("payload", JSONB),
    sa.Column("state", sa.Text),
    sa.Column("run_at", sa.DateTime(timezone=True)),
    sa.Column("attempts", sa.Integer),
)
lanes = sa.Table(
    "job_lanes",
    schema,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("paused_at", sa.DateTime(timezone=True)),
    sa.Column("rests_until", sa.DateTime(timezone=True)),
)
done_log = sa.Table("done_log", schema, sa.Column("event_id", sa.Uuid), sa.Column("id", sa.Uuid), sa.Column("by", sa.Text))

UUIDS, TEXTS, INTEGERS = ARRAY(sa.Uuid), ARRAY(sa.Text), ARRAY(sa.Integer)
TIME = sa.DateTime(timezone=True)


def of_contract(statement, *types):
    """A statement of the contract, whose $1, $2, … have these types."""
    text = sa.text(re.sub(r"\$(\d+)", r":p\1", statement))
    return text.bindparams(*(sa.bindparam(f"p{place}", type_=type_) for place, type_ in enumerate(types, 1)))


def values(*all_values):
    return {f"p{place}": value for place, value in enumerate(all_values, 1)}


def claim_of(lane, now, count):
    # The states are literals, as in the contract: the index is one of those that can be taken.
    paused_or_rests = sa.or_(lanes.c.paused_at.is_not(None), lanes.c.rests_until > now)
    stands_still = sa.exists().where(lanes.c.name == lane, paused_or_rests)
    return (
        sa.select(jobs)
        .where(jobs.c.lane == lane, jobs.c.state == sa.literal_column("'CREATED'"), jobs.c.is_head, jobs.c.run_at <= now, ~stands_still)
        .order_by(jobs.c.lane, jobs.c.run_at, jobs.c.event_id, jobs.c.id)
        .limit(count)
        .with_for_update(skip_locked=True)
    )


class Worker:
    def __init__(self, told):
        self.lane, self.node, self.batch = told["lane"], told["node"], told["batch"]
        self.engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(told["url"]))
        statements = told["statements"]
        self.settings = sa.text(statements["settings"])
        self.take = of_contract(statements["take"], UUIDS, UUIDS, sa.Text, TIME, sa.Uuid, TIME)
        self.complete = of_contract(statements["complete"], UUIDS, UUIDS, TEXTS, sa.Uuid, TIME)
        self.promote = of_contract(statements["promote"], UUIDS, TEXTS, INTEGERS, TIME)
        self.retry = of_contract(statements["retry"], sa.Uuid, sa.Uuid, sa.Uuid, TIME, sa.Text)
        self.give_up = of_contract(statements["give_up"], sa.Uuid, sa.Uuid, sa.Uuid, TIME, sa.Text)

    def transaction(self, body):
        for attempt in range(1, TRIES_MAX + 1):
            try:
                with self.engine.begin() as conn:
                    conn.execute(self.settings)
                    return body(conn)
            except sa.exc.OperationalError as error:
                if error.orig.sqlstate not in ("40P01", "40001") or attempt == TRIES_MAX:
                    raise

    def claim(self):
        """Jobs, and the lease that they were taken with. The transaction is over before any of them is worked."""
        now, lease = datetime.now(timezone.utc), uuid.uuid4()

        def body(conn):
            taken = conn.execute(claim_of(self.lane, now, self.batch)).all()
            if taken:
                events, ids = [job.event_id for job in taken], [job.id for job in taken]
                conn.execute(self.take, values(events, ids, self.node, now, lease, now + LEASE))
            return taken

        return self.transaction(body), lease

    def end(self, taken, lease):
        """Works the jobs and ends each; returns how many were still ours."""
        fails = {"once": lambda job: job.attempts == 0, "always": lambda job: True}
        failed = [job for job in taken if fails.get(job.payload["fails"], lambda job: False)(job)]
        done = [job for job in taken if job not in failed]
        return sum(self.fail(job, lease) for job in failed) + self.finish(done, lease)

    def fail(self, job, lease):
        now = datetime.now(timezone.utc)

        def body(conn):
            if job.payload["fails"] == "once":
                return conn.execute(self.retry, values(job.event_id, job.id, lease, now, "not yet")).rowcount
            over = conn.execute(self.give_up, values(job.event_id, job.id, lease, now, "never")).all()
            self.promote_after(conn, over, now)
            return len(over)

        return self.transaction(body)

    def finish(self, done, lease):
        now = datetime.now(timezone.utc)
        if not done:
            return 0

        def body(conn):
            events, ids, groups = zip(*((job.event_id, job.id, job.group_key) for job in done))
            over = conn.execute(self.complete, values(list(events), list(ids), list(groups), lease, now)).all()
            if over:
                conn.execute(done_log.insert(), [{"event_id": job.event_id, "id": job.id, "by": self.node} for job in over])
            self.promote_after(conn, over, now)
            return len(over)

        return self.transaction(body)

    def promote_after(self, conn, over, now):
        if over:
            columns = [[getattr(job, name) for job in over] for name in ("event_id", "group_key", "number")]
            conn.execute(self.promote, values(*columns, now))


def say(text):
    print(text, flush=True)


def main():
    told = json.loads(sys.stdin.readline())
    worker, done, hold_after = Worker(told), 0, told["hold_after"]
    say("ready")
    while True:
        taken, lease = worker.claim()
        if taken and hold_after is not None and done >= hold_after:
            # Stands still with jobs in hand until it is told to go on, or is killed.
            say(f"holding {len(taken)}")
            sys.stdin.readline()
            say(f"ended {worker.end(taken, lease)}")
            hold_after = None
        elif taken:
            done += worker.end(taken, lease)
        elif select.select([sys.stdin], [], [], POLL_SECS)[0]:
            return


main()

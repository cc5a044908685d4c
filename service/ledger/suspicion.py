"""Jobs whose server died again and again while it ran them, and how they are kept from others.

A dead server is never counted against a job: the job does not fail. But some job may be what ends
the servers. One that many servers died with is suspected of that (`Job.is_suspected`). It runs
only on a server that runs nothing else, which takes nothing else meanwhile, and only when no other
job could run in its place. So it can end no job but itself, and its waits double up to a day
(`Backoff`).
"""

from __future__ import annotations

import sqlalchemy as sa

from toast.service.ledger.records import SUSPECT_DEATHS
from toast.service.ledger.states import CLAIMED
from toast.service.ledger.tables import jobs


def suspected() -> sa.ColumnElement[bool]:
    """True of rows of suspected jobs."""
    return jobs.c.server_deaths >= SUSPECT_DEATHS


def may_run_on(server: str) -> sa.ColumnElement[bool]:
    """True of rows that a server may claim beside what it runs already.

    A server's claims must come one after another: two at once would not see each other's.
    """
    mine = jobs.alias("mine")
    running = sa.and_(mine.c.owner == server, mine.c.state.in_([state.value for state in CLAIMED]))
    anything = sa.exists(sa.select(mine.c.seq).where(running))
    suspect = sa.exists(
        sa.select(mine.c.seq).where(running, mine.c.server_deaths >= SUSPECT_DEATHS)
    )
    return sa.and_(sa.not_(suspect), sa.or_(sa.not_(suspected()), sa.not_(anything)))

"""pg-boss over two semi-primaries, by `make test-engines`. docs/workflows.md tells how to set it up."""

from tests.engines.queues import JobQueue


class TestPgBoss(JobQueue):
    program = "pgboss_orders.mjs"
    settings = ()
    unfinished = "SELECT id, state FROM pgboss.job WHERE name = 'orders' AND state <> 'completed'"
    frees_jobs = True

"""graphile-worker over two semi-primaries (docs/workflows.md), by `make test-engines`."""

from tests.engines.queues import JobQueue


class TestGraphileWorker(JobQueue):
    program = "graphile_orders.mjs"
    settings = ()
    unfinished = "SELECT id, attempts, last_error FROM graphile_worker.jobs"
    frees_jobs = False

"""River over two semi-primaries, by `make test-engines`. docs/workflows.md tells how to set it up."""

from tests.engines.queues import JobQueue


class TestRiver(JobQueue):
    program = "river_orders"
    settings = ()
    unfinished = "SELECT id, state FROM river_job WHERE kind = 'order' AND state <> 'completed'"
    frees_jobs = True

"""procrastinate over two semi-primaries, by `make test-engines`. docs/workflows.md tells how to set it up."""

from tests.engines.queues import JobQueue


class TestProcrastinate(JobQueue):
    program = "procrastinate_orders.py"
    settings = ()
    unfinished = "SELECT id, status FROM procrastinate_jobs WHERE task_name = 'pay' AND status <> 'succeeded'"
    frees_jobs = True

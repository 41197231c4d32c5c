"""An application with a durable workflow. Arguments: URL, executor's name, command, its arguments.

run FIRST END [slow]: starts workflows FIRST to END - 1, all at once, and waits for them.
recover NAME…: goes on with what executors of these names have left.
"""

import sys
import time

from dbos import (  # type: ignore[import-not-found]  # it is in an environment of its own
    DBOS,
    DBOSConfig,
    SetWorkflowID,
    SQLAlchemyDatasource,
)
from sqlalchemy import text

URL, NAME, COMMAND, *ARGUMENTS = sys.argv[1:]
CONFIG: DBOSConfig = {
    "name": "shop",
    "system_database_url": URL,
    "executor_id": NAME,
    "application_version": "1",
    "run_admin_server": False,
    "use_listen_notify": False,  # a notification reaches one server only
}

DBOS(config=CONFIG)
shop = SQLAlchemyDatasource.create(URL)


@DBOS.step(retries_allowed=True, max_attempts=10)  # type: ignore[untyped-decorator]
def reserve(number: int, pause_s: float) -> str:
    """Something outside of the database."""
    print(f"reserves {number}", flush=True)
    time.sleep(pause_s)
    return f"reservation {number}"


@shop.transaction  # type: ignore[untyped-decorator]
def pay(number: int) -> None:
    """Rows of the application, in the transaction that stores that they are written."""
    session = shop.sql_session()
    session.execute(text("UPDATE counter SET value = value + 1"))
    session.execute(text("INSERT INTO unit (name) VALUES (:name)"), {"name": f"order {number}"})


@DBOS.workflow()  # type: ignore[untyped-decorator]
def order(number: int, pause_s: float) -> str:
    """Two steps, each of which is done once."""
    reservation: str = reserve(number, pause_s)
    pay(number)
    return reservation


def main() -> None:
    """The command."""
    DBOS.launch()
    if COMMAND == "recover":
        handles = DBOS._recover_pending_workflows(ARGUMENTS)
    else:
        first, end, *slow = ARGUMENTS
        handles = []
        for number in range(int(first), int(end)):
            with SetWorkflowID(f"order-{number}"):
                handles.append(DBOS.start_workflow(order, number, 60.0 if slow else 0.0))
    print("results", sorted(str(handle.get_result()) for handle in handles), flush=True)
    DBOS.destroy()


main()

# SPDX-License-Identifier: PostgreSQL
"""Transactions on psp: the thesis's begin and commit (section 3.4.3), the same in views and native mode.

with psp_client.connect("host=sp1 dbname=shop") as client:
    client.run(lambda connection: connection.execute("UPDATE item SET stock = stock - 1 WHERE id = 7"))
"""

from psp_client._async import AsyncClient, connect_async
from psp_client._common import Committed, NoTransactionError, Settings, TransactionOpenError
from psp_client._errors import OutcomeUnknown
from psp_client._places import Places
from psp_client._request import Request, RequestFailed
from psp_client._retry import Backoff
from psp_client._sync import Client, connect

__all__ = [
    "AsyncClient",
    "Backoff",
    "Client",
    "Committed",
    "NoTransactionError",
    "OutcomeUnknown",
    "Places",
    "Request",
    "RequestFailed",
    "Settings",
    "TransactionOpenError",
    "connect",
    "connect_async",
]

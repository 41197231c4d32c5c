# SPDX-License-Identifier: PostgreSQL
"""What a view may change of its request, put back before the view runs again."""

from __future__ import annotations

import copy
from io import BytesIO
from typing import Any

from django.conf import settings  # type: ignore[import-untyped]
from django.http import HttpRequest  # type: ignore[import-untyped]
from django.utils.functional import LazyObject, empty  # type: ignore[import-untyped]

_BODY = ("_body", "_post", "_files", "_read_started", "_stream")
"""Attributes of a request that stay: what was read from the client cannot be read twice."""


class Rewind:
    """A request as it is before its view runs for the first time."""

    def __init__(self, request: Any) -> None:
        self._request = request
        _read_small_body(request)
        self._was_read = request._read_started
        self._attributes = dict(request.__dict__)
        self._lazy = [
            value for value in self._attributes.values()
            if issubclass(type(value), LazyObject) and object.__getattribute__(value, "_wrapped") is empty
        ]  # fmt: skip
        session, messages = (request.__dict__.get(name) for name in ("session", "_messages"))
        self._session = None if session is None else (session, _of_session(session.__dict__))
        self._messages = None if messages is None else (messages, _with_own_lists(messages.__dict__))

    def rewind(self) -> bool:
        """False: the view has read the body as a stream, or closed a file, and cannot run again."""
        files = self._request.__dict__.get("_files")
        uploaded = [file for _, found in files.lists() for file in found] if files else []
        if any(file.closed for file in uploaded):
            return False
        now = self._request.__dict__
        if now["_read_started"] and not self._was_read and not ("_body" in now or "_files" in now):
            return False
        for file in uploaded:
            file.seek(0)
        kept = {name: now[name] for name in _BODY if name in now}
        now.clear()
        now.update(self._attributes, **kept)
        if "_body" in now:  # who reads the body as a stream begins again
            now["_stream"] = BytesIO(now["_body"])
        for value in self._lazy:  # such as request.user: an object of the attempt that has failed
            value.__dict__["_wrapped"] = empty
        if self._session is not None:
            session, before = self._session
            session.__dict__.clear()
            session.__dict__.update(_of_session(before))
        if self._messages is not None:
            messages, before = self._messages
            messages.__dict__.clear()
            messages.__dict__.update(_with_own_lists(before))
        return True


def request_of(arguments: tuple[Any, ...]) -> Any:
    """The request among the arguments of a view or of a view's method; None if there is none."""
    return next((value for value in arguments if issubclass(type(value), HttpRequest)), None)


def _read_small_body(request: Any) -> None:
    """Into memory, as Django allows it: who reads it as a stream can then do so again."""
    size = int(request.META.get("CONTENT_LENGTH") or 0)
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    is_form = request.content_type == "multipart/form-data"
    if size and not is_form and not request._read_started and (limit is None or size <= limit):
        request.body  # noqa: B018 (reads it)


def _of_session(attributes: dict[str, Any]) -> dict[str, Any]:
    """The rest, such as a cache's client, is no data."""
    return {
        name: copy.deepcopy(value) if name == "_session_cache" else value
        for name, value in attributes.items()
    }  # fmt: skip


def _with_own_lists(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, list) else value for name, value in attributes.items()}

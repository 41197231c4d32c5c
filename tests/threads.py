"""Work in threads beside a block of a test, whose exceptions fail the test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

END_S = 120


@contextmanager
def running(*bodies: Callable[[], object]) -> Iterator[None]:
    """Each in a thread. They have ended when the block has been left; the first exception is raised then."""
    problems: list[BaseException] = []

    def guarded(body: Callable[[], object]) -> None:
        try:
            body()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(END_S)
        if problems:
            raise problems[0]
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"


@contextmanager
def running_until_left(*bodies: Callable[[threading.Event], object]) -> Iterator[None]:
    """Like `running`. The event that each gets is set when the block is left."""
    stop = threading.Event()
    with running(*(partial(body, stop) for body in bodies)):
        try:
            yield
        finally:
            stop.set()

"""The pictures of docs/operating.md: `python -m tests.console.pictures docs/console`."""

import sys
from pathlib import Path

from psp.console.server import Access

from tests.console.driver import Browser, browser
from tests.console.test_browser import VIEWS, open_page
from tests.sql.command.test_console import TOKEN, served

PICTURES = {
    "desktop-light": ("busy", "light", 1280),
    "desktop-dark-blocked": ("blocked", "dark", 1280),
    "phone-light": ("busy", "light", 390),
}


def take(page: Browser, name: str) -> bytes:
    view, theme, width = PICTURES[name]
    with served(Access(frozenset(), token=TOKEN), VIEWS[view]) as server:
        page.theme(theme)
        page.size(width, 800)
        open_page(page, server)
        page.size(width, page.run("return document.documentElement.scrollHeight"))
        return page.picture()


if __name__ == "__main__":
    with browser() as one:
        for picture in PICTURES:
            (Path(sys.argv[1]) / f"{picture}.png").write_bytes(take(one, picture))

"""The templates of sql/: how all of them are read and what they may call."""

from functools import cache

import jinja2

from psp.schema.keys import quote
from psp.sql_files import SqlLoader


def dollar_quote(text: str) -> str:
    """A dollar quote that does not stand in `text`."""
    tag = "psp"
    while f"${tag}$" in text:
        tag += "_"
    return f"${tag}$"


@cache
def sql_templates(*folders: str) -> jinja2.Environment:
    """The templates of these folders of sql/. Filter `ident` quotes names; an unknown one is an error.

    Cached: to compile a template takes longer than all that is done with it for a table.
    """
    environment = jinja2.Environment(
        loader=SqlLoader(*folders),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # SQL: names go through `ident`, or come quoted
    )
    environment.filters["ident"] = quote
    return environment

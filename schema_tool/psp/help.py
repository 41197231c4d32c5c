"""The help of commands, at any width: a paragraph's lines flow together; indented ones (examples) stay."""

from __future__ import annotations

import inspect

import typer


def flow(app: typer.Typer) -> None:
    """Prepares the help of all commands below `app`. Typer keeps the line breaks of the source."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            flow(group.typer_instance)
    for command in app.registered_commands:
        text = command.help or (command.callback and command.callback.__doc__)
        if text:
            command.help = flowed(inspect.cleandoc(text))


def flowed(text: str) -> str:
    """Paragraphs as one line each, but for those with an indented line."""
    paragraphs = [p if _is_indented(p) else p.replace("\n", " ") for p in text.split("\n\n")]
    if len(paragraphs) > 2 and all(map(_is_indented, paragraphs[2:])):
        # Typer takes away the indentation that all lines after the second paragraph have in common.
        paragraphs[-1] += "\n[bold][/]"
    return "\n\n".join(paragraphs)


def _is_indented(paragraph: str) -> bool:
    return any(line.startswith(" ") for line in paragraph.split("\n"))

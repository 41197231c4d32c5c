"""`python -m psp` is the `psp` command."""

from psp.cli import app

app(prog_name="psp")

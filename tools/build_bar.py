#!/usr/bin/env python3
"""build_bar.py COMMAND…: runs ninja, with one bar in place of its lines. Without a terminal: its own lines.

What is no step, such as a compiler's error, is printed as it comes. The exit code is ninja's.
"""

import os
import re
import shutil
import subprocess
import sys
import time

STEP = re.compile(r"\[(\d+)/(\d+)\] ")
BAR_MAX = 40


def bar(done: int, total: int, seconds: float, width: int) -> str:
    """At most `width` characters."""
    numbers = f" {100 * done // total:3d} %  {done}/{total}  {int(seconds) // 60}:{int(seconds) % 60:02d} min"
    cells = max(min(BAR_MAX, width - len(numbers) - 1), 1)
    full = cells * done // total
    return ("█" * full + "░" * (cells - full) + numbers)[:width]


def main(command: list[str]) -> int:
    """Ninja's exit code."""
    if not sys.stdout.isatty() or (sys.stdout.encoding or "").lower() != "utf-8":
        os.execvp(command[0], command)
    begun = time.monotonic()
    is_drawn = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ninja:
        assert ninja.stdout is not None
        for line in ninja.stdout:
            step = STEP.match(line)
            if step:
                width = shutil.get_terminal_size().columns - 1
                text = bar(int(step[1]), int(step[2]), time.monotonic() - begun, width)
                print(f"\r{text}\x1b[K", end="", flush=True)
                is_drawn = True
            else:
                print(("\n" if is_drawn else "") + line, end="", flush=True)
                is_drawn = False
    if is_drawn:
        print()
    return ninja.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

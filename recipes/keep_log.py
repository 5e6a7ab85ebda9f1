"""Keep what a program prints in a log: COMMAND 2>&1 | keep_log.py LOG [NAME UPDATES].

On the terminal are warnings of cape_fairseq and, with NAME and UPDATES, the progress of a training:
one line that is updated, or without a terminal one per 100 updates, at least one. VERBOSE=1 shows
everything.
"""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

STEP = re.compile(r"\| train_inner \|.* loss=([\d.]+),.* num_updates=(\d+)")
EPOCH = re.compile(r"\| train \|.*\| loss ([\d.]+) .*\| num_updates (\d+)")
RESUMED = re.compile(r"Loaded checkpoint .* @ (\d+) updates")
WARNING = re.compile(r"\| WARNING \| cape_fairseq\S* \| (.*)")
EVERY = 100  # updates between two lines without a terminal


class Progress:
    """Show the updates, the loss and the time that is left of a training."""

    def __init__(self, name: str, updates: int) -> None:
        row = int(os.environ.get("PROGRESS_ROW", 0))  # of the trainings that run at once
        form = "{desc}: {n_fmt} of {total_fmt} updates{postfix}, {elapsed} passed, {remaining} left"
        self.has_terminal = sys.stderr.isatty()
        file = sys.stderr if self.has_terminal else io.StringIO()
        self.bar = tqdm(
            total=updates, desc=name, position=row, bar_format=form, mininterval=0, file=file
        )
        self.shown = 0

    def read(self, line: str) -> None:
        """Read a line of fairseq's log."""
        if found := RESUMED.search(line):
            self.bar.initial = self.bar.n = self.shown = int(found[1])
        elif found := STEP.search(line) or EPOCH.search(line):
            self.bar.set_postfix_str(f"loss {found[1]}", refresh=False)
            self.bar.n = int(found[2])
            self.show()

    def show(self) -> None:
        """Update the line of the terminal, or print the next one."""
        if self.has_terminal:
            self.bar.refresh()
        elif self.bar.n - self.shown >= EVERY:
            self.shown = self.bar.n
            print(self.bar, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Print the last update if no line was printed."""
        if not self.has_terminal and self.bar.n > self.shown == self.bar.initial:
            print(self.bar, file=sys.stderr, flush=True)


def keep_lines(log: Path) -> Iterator[str]:
    """Append the lines of the input to a log, and yield them. Without lines there is no log."""
    for line in sys.stdin.buffer:
        with open(log, "ab") as stream:
            stream.write(line)
        yield line.decode("utf-8", "replace").rstrip("\r\n")


def main() -> None:
    """Run the script."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the program ends, and this with its output
    log, *training = sys.argv[1:]
    is_verbose = bool(os.environ.get("VERBOSE"))
    progress = Progress(training[0], int(training[1])) if training and not is_verbose else None
    warned = set()
    try:
        for line in keep_lines(Path(log)):
            if is_verbose:
                print(line, file=sys.stderr)
            elif progress:
                progress.read(line)
            if (found := WARNING.search(line)) and found[1] not in warned and not is_verbose:
                warned.add(found[1])
                tqdm.write(f"warning: {found[1]}", file=sys.stderr)
        if progress:
            progress.end()
    except OSError as error:
        raise SystemExit(f"{log} cannot be written: {error.strerror}") from None


if __name__ == "__main__":
    main()

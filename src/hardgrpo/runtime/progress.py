"""Show the progress of long work with rate and remaining time: a line every half a minute."""

import time

from hardgrpo.runtime.interruption import say

SECONDS_BETWEEN_LINES = 30.0


class Progress:
    """A display of progress:

    with Progress("probe tiny/swaps", 1000, "completions") as progress:
        progress.advance(64)

    `start`: number of units that an earlier process has done. With `visible=False` nothing is
    shown, and only the time is measured.
    """

    def __init__(self, title: str, total: int, unit: str, start: int = 0, visible: bool = True):
        self.title, self.total, self.unit, self.count, self.start = title, total, unit, start, start
        self.visible = visible
        self.started = self.last_line = self.mark = time.monotonic()
        self.seconds = 0.0  # time of the work, without the preparation that `ready` excludes

    def __enter__(self) -> "Progress":
        if self.visible:
            say(f"{self.title}: {self.count} of {self.total} {self.unit}")
        return self

    def ready(self) -> None:
        """Exclude the time since the last `advance`, such as the start of an engine, from
        `seconds`."""
        self.mark = time.monotonic()

    def advance(self, count: int = 1, note: str = "") -> None:
        self.count += count
        now = time.monotonic()
        self.seconds += now - self.mark
        self.mark = now
        is_due = self.count >= self.total or now - self.last_line >= SECONDS_BETWEEN_LINES
        if self.visible and is_due:
            self.last_line = now
            rate = (self.count - self.start) / max(now - self.started, 1e-9)
            remaining_seconds = (self.total - self.count) / rate if rate else float("nan")
            bar = ("#" * round(20 * self.count / self.total)).ljust(20, ".")
            say(
                f"{self.title}: [{bar}] {self.count} of {self.total} {self.unit} ({self.count / self.total:.0%}),"
                f" {rate:.3g}/s, {remaining_seconds:.0f} s left" + (f", {note}" if note else "")
            )

    def __exit__(self, *_) -> None:
        """Nothing has to be closed."""

"""Log lines: JSON on a pipe, readable on a terminal, and never a reason for the relay to wait.

Lines go to a bounded queue; a thread of its own writes them. If nobody reads the pipe the thread
waits, the queue fills, and further lines are dropped and counted.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from hashlib import blake2s

import structlog
from structlog.typing import FilteringBoundLogger, Processor

# Some seconds of a busy proxy; at most about 5 MB.
MAX_QUEUED_LINES = 10_000
_MAX_ID = 64
# One write for what has gathered.
_MAX_LINES_PER_WRITE = 256

Logger = FilteringBoundLogger


def session_hash(session_id: bytes) -> str:
    """Eight hex digits that stand for a session id, which is a secret of its client."""
    return blake2s(session_id, digest_size=4).hexdigest()


def shown_id(text: bytes) -> str:
    """A JSON-RPC id as a log line shows it: of printable ASCII and short, whatever a client made of it."""
    if len(text) > 1 and text[:1] == text[-1:] == b'"':
        text = text[1:-1]
    shown = text[:_MAX_ID].decode("utf-8", "replace").encode("ascii", "backslashreplace").decode()
    return shown if len(text) <= _MAX_ID else f"{shown}..."


class LinePipe:
    """Writes lines to a file descriptor from a thread of its own.

    `on_dropped` is called with a number of lines lost, from any thread.
    """

    def __init__(self, descriptor: int, on_dropped: Callable[[int], None]) -> None:
        self._descriptor = descriptor
        self._on_dropped = on_dropped
        self._lines: queue.Queue[bytes | None] = queue.Queue(MAX_QUEUED_LINES)
        self._thread = threading.Thread(target=self._write_lines, name="epochgate-log", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Queue a line (without its newline) or drop it; never waits."""
        try:
            self._lines.put_nowait(line.encode("utf-8", "backslashreplace") + b"\n")
        except queue.Full:
            self._on_dropped(1)

    def close(self, within_s: float = 1.0) -> None:
        """Write what is queued, for at most `within_s` seconds."""
        try:
            self._lines.put(None, timeout=within_s)
        except queue.Full:
            return
        self._thread.join(within_s)

    def _write_lines(self) -> None:
        is_open = True
        while is_open:
            batch = [self._lines.get()]
            while len(batch) < _MAX_LINES_PER_WRITE and batch[-1] is not None and not self._lines.empty():
                batch.append(self._lines.get())
            is_open = batch[-1] is not None
            lines = [line for line in batch if line is not None]
            if not self._write(b"".join(lines)):
                self._on_dropped(len(lines))

    def _write(self, data: bytes) -> bool:
        """False if nobody can read it: the pipe is closed or the disk is full."""
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return False
        return True


class _PipeLogger:
    """What structlog writes rendered lines with."""

    def __init__(self, pipe: LinePipe) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = pipe.put


def make_logger(pipe: LinePipe, is_json: bool, level: str, has_colors: bool = False) -> Logger:
    """A structlog logger over the pipe. `level` is the least one written."""
    wrapper = structlog.make_filtering_bound_logger(level)
    logger: Logger = structlog.wrap_logger(
        _PipeLogger(pipe),
        processors=_processors(is_json, has_colors),
        wrapper_class=wrapper,
        cache_logger_on_first_use=True,
    )
    return logger


def _processors(is_json: bool, has_colors: bool) -> list[Processor]:
    stamps: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Tracebacks without the values of variables: those hold credentials and bodies.
    if is_json:
        shown = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        return [
            *stamps,
            structlog.processors.ExceptionRenderer(shown),
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ]
    plain = structlog.dev.plain_traceback
    return [
        *stamps,
        structlog.dev.ConsoleRenderer(colors=has_colors, sort_keys=False, exception_formatter=plain),
    ]


class LibraryLines(logging.Handler):
    """Sends what libraries log through the same pipe, as events of ours."""

    def __init__(self, log: Logger) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        is_error = record.levelno >= logging.ERROR
        write = self._log.error if is_error else self._log.warning
        exc_info = record.exc_info if record.exc_info and record.exc_info[0] else None
        write("library", logger=record.name, message=record.getMessage(), **_with(exc_info))


def _with(exc_info: object) -> dict[str, object]:
    return {} if exc_info is None else {"exc_info": exc_info}

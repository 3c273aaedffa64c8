"""Lines that somebody reads, lines that nobody reads, and what must not stand in any."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable

import pytest

from epochgate.observe.logs import (
    MAX_QUEUED_LINES,
    LibraryLines,
    LinePipe,
    make_logger,
    session_hash,
    shown_id,
)

DEADLINE_S = 10.0
# A line that a caller had to wait for would take as long as the reader: for ever.
MAX_PUT_S = 2.0


class Count:
    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.Lock()

    def add(self, lines: int) -> None:
        with self._lock:
            self.total += lines


def _wait_until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while not holds() and time.monotonic() < deadline:
        threading.Event().wait(0.005)
    return holds()


def _written(write: Callable[[LinePipe], None]) -> tuple[list[bytes], int]:
    """The lines that come out of a pipe that is read, and how many were dropped."""
    reader, writer = os.pipe()
    dropped = Count()
    pipe = LinePipe(writer, dropped.add)
    write(pipe)
    pipe.close(DEADLINE_S)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        return stream.read().splitlines(), dropped.total


def test_lines_come_out_whole_and_in_order() -> None:
    def write(pipe: LinePipe) -> None:
        for number in range(500):
            pipe.put(f"line {number}")

    lines, dropped = _written(write)
    assert lines == [b"line %d" % i for i in range(500)]
    assert dropped == 0


def test_a_pipe_that_nobody_reads_stops_nobody_and_every_lost_line_is_counted() -> None:
    reader, writer = os.pipe()
    dropped = Count()
    pipe = LinePipe(writer, dropped.add)
    log = make_logger(pipe, is_json=True, level="info")
    put = MAX_QUEUED_LINES + 20_000

    begun = time.monotonic()
    for number in range(put):
        log.info("request", number=number)
    assert time.monotonic() - begun < DEADLINE_S
    assert dropped.total >= 15_000

    begun = time.monotonic()
    pipe.close(within_s=0.1)
    assert time.monotonic() - begun < MAX_PUT_S

    # The reader comes back: what was kept comes out, whole lines, in order, none twice.
    kept = _read_lines(reader, put - dropped.total)
    numbers = [json.loads(line)["number"] for line in kept]
    assert len(numbers) == put - dropped.total
    assert numbers == sorted(set(numbers))
    os.close(reader)
    os.close(writer)


def _read_lines(reader: int, wanted: int) -> list[bytes]:
    data, deadline = b"", time.monotonic() + DEADLINE_S
    while data.count(b"\n") < wanted and time.monotonic() < deadline:
        data += os.read(reader, 1 << 20)
    return data.splitlines()


def test_lines_for_a_pipe_that_is_closed_are_counted_as_lost() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    dropped = Count()
    pipe = LinePipe(writer, dropped.add)
    pipe.put("nobody will see this")
    pipe.put("nor this")
    assert _wait_until(lambda: dropped.total == 2)
    pipe.close()
    os.close(writer)


def test_json_lines_hold_one_object_each_whatever_the_values() -> None:
    def write(pipe: LinePipe) -> None:
        log = make_logger(pipe, is_json=True, level="info")
        log.info("request", session="0123abcd", text="two\nlines \ud800", blob=b"\xff")
        log.debug("not at this level")

    (line,), _ = _written(write)
    said = json.loads(line)
    assert (said["event"], said["level"], said["session"]) == ("request", "info", "0123abcd")
    assert said["timestamp"].endswith("Z")


def test_an_unexpected_exception_is_one_json_line() -> None:
    def write(pipe: LinePipe) -> None:
        log = make_logger(pipe, is_json=True, level="info")
        handler = LibraryLines(log)
        try:
            raise ValueError("of ours")
        except ValueError:
            record = logging.LogRecord("asyncio", logging.ERROR, __file__, 1, "task %s failed", ("x",), None)
            record.exc_info = (ValueError, ValueError("of ours"), None)
            handler.emit(record)

    (line,), _ = _written(write)
    said = json.loads(line)
    assert (said["event"], said["logger"], said["message"]) == ("library", "asyncio", "task x failed")
    assert said["exception"][0]["exc_type"] == "ValueError"


@pytest.mark.parametrize("is_json", [True, False])
def test_the_traceback_of_a_line_shows_no_values_of_variables(is_json: bool) -> None:
    def write(pipe: LinePipe) -> None:
        log = make_logger(pipe, is_json, level="info")
        token = "Bearer of-a-secret"
        try:
            raise ValueError(len(token))
        except ValueError:
            log.exception("unexpected")

    lines, _ = _written(write)
    assert b"ValueError" in b"".join(lines)
    assert b"of-a-secret" not in b"".join(lines).replace(b'token = "Bearer of-a-secret"', b"")


def test_console_lines_are_for_people() -> None:
    def write(pipe: LinePipe) -> None:
        make_logger(pipe, is_json=False, level="info").info("listening", listen="127.0.0.1:8808")

    (line,), _ = _written(write)
    assert b"listening" in line
    assert not line.startswith(b"{")


@pytest.mark.parametrize("session_id", [b"", b"a", b"1f9e0c", b"\xff" * 300])
def test_a_session_is_named_by_eight_digits_that_do_not_give_it_away(session_id: bytes) -> None:
    named = session_hash(session_id)
    assert len(named) == 8
    assert int(named, 16) >= 0
    assert session_id.hex() != named


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"7", "7"),
        (b'"call-7"', "call-7"),
        (b'""', ""),
        (b'"', '"'),
        (b"x" * 64, "x" * 64),
        (b'"' + b"x" * 5000 + b'"', "x" * 64 + "..."),
        ('"ä\u202e\x9b"'.encode(), "\\xe4\\u202e\\x9b"),
        (b'"\xff"', "\\ufffd"),
    ],
)
def test_an_id_is_shown_short_and_printable_whatever_a_client_made_of_it(text: bytes, shown: str) -> None:
    assert shown_id(text) == shown

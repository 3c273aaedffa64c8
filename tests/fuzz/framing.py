"""Framing: a stream has the same events however it is cut, and each as soon as it is complete."""

from __future__ import annotations

from collections.abc import Sequence

from epochgate.core import sse
from tests.fuzz import plain
from tests.fuzz.spelling import Choices, cut, spelled

WORDS = (
    b"data: x",
    b"data",
    b"id: 1",
    b": note",
    b"event: message",
    b"retry: 5",
    b"\xef\xbb\xbf",
    b"\xef",
    b"\xbb",
    b"\xbf",
    b"\r\n",
    b"\n\n",
    b"\r\n\r\n",
    b"\r\r",
    b"\n\r",
)
_LAST = b"data: last\n\n"


def one(data: bytes) -> None:
    choices = Choices(data)
    sizes = choices.numbers(16, below=32)
    takes_tail = choices.numbers(16, below=2)
    stream = spelled(choices.rest(), WORDS)
    _framed(stream, sizes)
    _streamed_through(stream + _LAST, sizes, takes_tail)


def _framed(stream: bytes, sizes: Sequence[int]) -> None:
    framer = sse.Framer()
    seen, given = b"", 0
    events: list[list[bytes]] = []
    for chunk in [*cut(stream, sizes), _LAST]:
        block = framer.feed(chunk)
        pieces = sse.split(block)
        assert b"".join(pieces) == block
        events += map(_lines, pieces)
        seen += chunk
        given += len(block)
        complete = plain.events(seen)
        text = seen.removeprefix(b"\xef\xbb\xbf")
        if (b"\n" + text).endswith(b"\n\r") and len(events) == len(complete) - 1:
            complete.pop()  # an LF may belong to it
        assert events == complete
        # Nothing is dropped but LFs whose CR ended an event that was given out.
        assert 0 <= len(text) - given - framer.pending <= text.count(b"\r\n")
    assert framer.pending == 0


def _streamed_through(stream: bytes, sizes: Sequence[int], takes_tail: Sequence[int]) -> None:
    framer = sse.Framer()
    whole: list[bytes] = []
    part = b""
    for number, chunk in enumerate(cut(stream, sizes)):
        block = sse.split(framer.feed(chunk))
        if block:
            whole += [part + block[0], *block[1:]]
            part = b""
        if number < len(takes_tail) and takes_tail[number]:
            part += framer.take_tail()
    assert [*map(_lines, whole)] == plain.events(stream)


def _lines(raw: bytes) -> list[bytes]:
    """The lines of one event, which it ends."""
    *content, blank = plain.lines(raw)
    assert blank == b""
    return content

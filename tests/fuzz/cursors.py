"""Cursors and upstream ids: read only as they are written, and judged by their numbers."""

from __future__ import annotations

import re

from epochgate.core import cursor, sse
from epochgate.core.axes import IdStep
from epochgate.core.eventids import EventIds
from tests.fuzz.spelling import Choices, spelled

WORDS = (
    b"9007199254740991",
    b"9007199254740992",
    b"1048576",
    b"s_",
    b"_",
    b"0",
    b"7",
    b"8",
    b"9",
    b"10",
    b"11",
    b"\xd9\xa1",  # a digit, but of another alphabet
    b"\xb2",
    b"99999999999999999999",
)
_DECIMAL = re.compile(rb"0|[1-9][0-9]*")


def one(data: bytes) -> None:
    choices = Choices(data)
    texts = spelled(choices.rest(), WORDS).split(b"\n")
    for text in texts:
        _cursor(text)
    ids = [text.replace(b"\r", b"") for text in texts]
    _steps(ids[:-1], ids[-1])


def _cursor(text: bytes) -> None:
    found = cursor.read(text)
    is_cursor = len(text) < 20 and _DECIMAL.fullmatch(text) is not None and int(text) < 2**53
    assert (found is not None) == is_cursor
    if found is not None:
        block, position = found
        assert 0 <= block < cursor.MAX_BLOCKS
        assert 0 <= position < cursor.BLOCK_SPAN
        assert b"%d" % cursor.mint(block, position) == text


def _steps(seen: list[bytes], new: bytes) -> None:
    one_by_one, at_once = EventIds(), EventIds()
    for event_id in seen:
        one_by_one.saw([event_id], _event(event_id).raw)
    if seen:
        at_once.saw(seen, b"".join(_event(event_id).raw for event_id in seen))
    event = _event(new)
    step = one_by_one.step(event)
    assert at_once.step(event) is step
    assert at_once.is_comparable == one_by_one.is_comparable
    if not seen or not event.id:
        assert step is IdStep.UNJUDGED
    elif step is IdStep.NEXT:
        assert _number(new) == (_number(seen[-1]) or 0) + 1
    elif step is IdStep.SAME:
        assert new in seen


def _event(event_id: bytes) -> sse.Event:
    return sse.parse(b"id: " + event_id + b"\ndata: x\n\n")


def _number(event_id: bytes) -> int | None:
    digits = event_id.rpartition(b"_")[2]
    return int(digits) if _DECIMAL.fullmatch(digits) else None

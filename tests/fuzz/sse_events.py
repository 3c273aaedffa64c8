"""Events: read as the WHATWG says, edited without a change to anything else, one by one or as a block."""

from __future__ import annotations

from epochgate.core import eventforms, sse
from tests.fuzz import plain
from tests.fuzz.spelling import Choices, spelled

WORDS = (
    b'data: {"a":1}\n\n',
    b'event: message\ndata: {"a":1}\n\n',
    b'id: u\nevent: message\ndata: {"a":1}\n\n',
    b'event: message\nid: u\ndata: {"a":1}\n\n',
    b'id:u\nevent:message\ndata:{"a":1}\n\n',
    b'event: message\r\ndata: {"a":1}\r\n\r\n',
    b'id: u\r\ndata: {"a":1}\r\n\r\n',
    b'data: {"',
    b"data:",
    b"data",
    b"event: message\n",
    b"event:",
    b"id: ",
    b"id",
    b"id:\n",
    b"retry: ",
    b": c\n",
    b"\r\n",
    b"\0",
    b"%d",
    b"\xff",
    b"\xc2\x85",  # ends a line of text, but no line of an event stream
    b"\x0b",
    b"x" * 64,
    b"9" * 15,
)
_FIRST = 2**52


def one(data: bytes) -> None:
    choices = Choices(data)
    value = spelled(choices.some(16), WORDS).replace(b"\r", b"")
    block = sse.Framer().feed(spelled(choices.rest(), WORDS) + b"\n\n")
    raws = sse.split(block)
    for raw in raws:
        _read(raw)
        _given_a_cursor(raw)
        for data_in_its_place in (value, b"", b" ", b'{"b":2}'):
            _given_data(raw, data_in_its_place)
    _stamped(block, raws)
    _restamped(block, raws)


def _fields(raw: bytes) -> plain.Fields:
    return plain.fields(plain.lines(raw)[:-1])


def _read(raw: bytes) -> None:
    event, said = sse.parse(raw), _fields(raw)
    assert (event.id, event.name, event.data, event.retry) == (said.id, said.name, said.data, said.retry)
    is_message = said.name in (b"", b"message") and (said.data or b"").strip() not in (b"", b"{}")
    assert event.is_message == is_message


def _given_a_cursor(raw: bytes) -> None:
    if not plain.lines(raw)[0]:
        return  # a blank line that ends no event
    changed = sse.with_cursor(raw, _FIRST)
    assert plain.lines(changed).count(b"") == 1
    assert changed.endswith((b"\n", b"\r"))
    now = _fields(changed)
    assert now.id == b"%d" % _FIRST
    assert now.others == _fields(raw).others


def _given_data(raw: bytes, value: bytes) -> None:
    before = _fields(raw)
    changed = sse.with_data(sse.parse(raw), value)
    if before.data is None:
        assert changed == raw
        return
    assert plain.lines(changed).count(b"") == 1
    now = _fields(changed)
    assert (now.id, now.name, now.data, now.retry) == (before.id, before.name, value, before.retry)
    assert sse.with_data(sse.parse(raw), before.data) == raw


def _stamped(block: bytes, raws: list[bytes]) -> None:
    done = eventforms.stamp_cursors(block, _FIRST)
    if done is not None:
        assert done == (b"".join(sse.with_cursor(raw, _FIRST + n) for n, raw in enumerate(raws)), len(raws))
        assert all(_is_usual(raw) and _fields(raw).id is None for raw in raws)


def _restamped(block: bytes, raws: list[bytes]) -> None:
    done = eventforms.restamp_cursors(block, _FIRST)
    if done is None:
        return
    new = [_fields(raw) for raw in sse.split(done[0])]
    old = [_fields(raw) for raw in raws]
    assert done[1] == [event.id for event in old]
    assert [event.id for event in new] == [b"%d" % (_FIRST + n) for n in range(len(old))]
    assert [event.others for event in new] == [event.others for event in old]
    assert all(map(_is_usual, raws))


def _is_usual(raw: bytes) -> bool:
    event = sse.parse(raw)
    return event.is_message and event.retry is None

"""Progress in the form that was learned from one event: stamped as it would be one by one."""

from __future__ import annotations

from epochgate.core import jsonedit, jsonrpc, sse, usual
from epochgate.core.jsonrpc import Kind
from tests.fuzz.spelling import Choices, spelled

_STAMP = b"12345678901234"
_TOKEN = (b'"progressToken":' + _STAMP, b'"progressToken":7')
_BEGIN = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12345678901234,'
WORDS = (
    b"data: " + _BEGIN + b'"progress":1}}\n\n',
    b"event: message\ndata: " + _BEGIN + b'"progress":2}}\n\n',
    b"id: 5\nevent: message\ndata: " + _BEGIN + b'"progress":3}}\n\n',
    b"event: message\r\nid: u\r\ndata: " + _BEGIN + b'"progress":3}}\r\n\r\n',
    _BEGIN,
    b'"progress":4}}\n\n',
    b'"progress":4}}\r\n\r\n',
    b'"progressToken":12345678901234',
    b'"progressToken":123456789012345',
    b'"method":"notifications/progress"',
    b'{"params":{"progressToken":12345678901234,"progress":1},"method":"notifications/progress"}',
    b'"_meta":{"session_epoch":7}',
    b'"message":"',
    b"event: message\n",
    b"data: ",
    b"id: ",
    b"retry: 1\n",
    b"\r\n",
    b"\0",
    b"%",
    b"%d",
    b"\xff",
    b'\\"',
)
_FIRST = 2**52


def one(data: bytes) -> None:
    choices = Choices(data)
    first, second = choices.some(24), choices.rest()
    block = _usual_block(first)
    if block is None:
        return
    known = usual.learn(block, _TOKEN, _STAMP)
    if known is None:
        return
    _stamped(known, block)
    later = _usual_block(second)
    if later is not None:
        _stamped(known, later)


def _usual_block(data: bytes) -> bytes | None:
    """A block of which the callers know so much: no ids, and no token but the stream's own."""
    block = sse.Framer().feed(spelled(data, WORDS) + b"\n\n")
    is_usual = b'"id"' not in block and block.count(_TOKEN[0]) == block.count(b'"progressToken"') > 0
    return block if is_usual and b"\\u00" not in block else None


def _stamped(known: usual.Usual, block: bytes) -> None:
    done = known.stamp(block, _FIRST)
    if done is None:
        return
    raws = sse.split(block)
    events = [sse.parse(raw) for raw in raws]
    assert done[1] == len(raws)
    assert done[2] in ([], [event.id for event in events])
    if not done[2]:
        assert all(event.id is None for event in events)
    for number, (event, new) in enumerate(zip(events, sse.split(done[0]), strict=True)):
        assert event.retry is None
        assert event.is_message
        message = jsonrpc.read_message(event.data or b"")
        told = sse.parse(new)
        assert told.id == b"%d" % (_FIRST + number)
        if message.kind is Kind.INVALID:
            continue
        assert (message.kind, message.method) == (Kind.NOTIFICATION, "notifications/progress")
        assert message.token == _STAMP
        if message.is_rewritable:
            assert told.data == jsonedit.rewrite(message, token=b"7")
            with_token = sse.with_data(event, told.data)
            assert sse.without_fields(new, (b"id",)) == sse.without_fields(with_token, (b"id",))

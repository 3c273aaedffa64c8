"""Progress of a run that was sent again: dropped until it exceeds what the client saw (R38)."""

from __future__ import annotations

import msgspec

from epochgate.core import jsonrpc, sse
from epochgate.core.evidence import Reading
from epochgate.core.jsonrpc import Kind, Message
from epochgate.core.jsontext import UNREADABLE
from epochgate.core.stream import Owed, Stream


class _Params(msgspec.Struct):
    progress: float | None = None
    total: float | None = None


_PARAMS = msgspec.json.Decoder(_Params)
UNCOMPARABLE = float("inf")  # no progress of the new run exceeds it


def _read(message: Message) -> _Params | None:
    try:
        return _PARAMS.decode(jsonrpc.member(message.raw, "params") or b"")
    except UNREADABLE:
        return None


def is_seen(reading: Reading) -> bool:
    """Whether the client saw as much before. Another total, or no numbers: nothing is comparable."""
    owed = reading.owed
    if owed is None or owed.progress is None:
        return False
    params = _read(reading.message)
    if params is None or params.progress is None or params.total != owed.total:
        return True
    return params.progress <= owed.progress


def note(reading: Reading) -> None:
    """The client sees this much, on another stream than the request's own."""
    if reading.owed is not None:
        _raise(reading.owed, reading.message)


def _raise(owed: Owed, message: Message) -> None:
    params = _read(message)
    seen = None if params is None else params.progress
    total = None if params is None else params.total
    if seen is None or (owed.progress is not None and total != owed.total):
        owed.progress = UNCOMPARABLE
    else:
        owed.progress = seen if owed.progress is None else max(seen, owed.progress)
    owed.total = total


def remember(stream: Stream, owed: Owed, up_to: int) -> None:
    """Keep the last progress among the stream's events before position `up_to`, as the client saw it."""
    token = owed.message.token
    if token is None:
        return
    for entry in stream.journal.backwards():
        if entry.first >= up_to:
            continue
        for raw in reversed(sse.split(entry.data)[: up_to - entry.first]):
            data = sse.parse(raw).data
            if data is None or b"notifications/progress" not in data:
                continue
            message = jsonrpc.read_message(data)
            if message.kind is Kind.NOTIFICATION and message.token == token:
                _raise(owed, message)
                return

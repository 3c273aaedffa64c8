"""The form in which a server writes the progress events of one request, learned from one of them.

Such events are alike up to their progress token. A block in which every event begins so, up to this
stream's stamp, holds nothing but notifications of its own: it is split where they begin, and joined
with cursors and the client's token in the places of ids and stamp. Nothing is searched for twice.
"""

from __future__ import annotations

from epochgate.core import sse
from epochgate.core.eventforms import ID_FORMS, PLAIN_FORMS, Form
from epochgate.core.jsonrpc import Kind, read_message

_BEHIND_TOKEN = (b",", b"}")  # the token ends here: no other begins with the same digits
_EASY = 20  # bytes of a search that needs no preparation; a separator differs early or not at all


class Usual:
    """`begin` and, where the server gives ids, what follows an id up to behind the token."""

    __slots__ = ("_after", "_begin", "_blank", "_first", "_has_cr", "_lines", "_next", "_only", "_separator")

    def __init__(self, form: Form, begin: bytes, after: bytes | None, token: tuple[bytes, bytes]) -> None:
        self._begin = begin
        self._after = after
        self._blank = form.blank
        self._has_cr = form.has_cr
        self._lines = form.line_count
        self._separator = form.blank + begin
        told = begin if after is None else begin[: begin.index(b"id:")] + after[len(form.end) :]
        head = told.replace(*token).replace(b"%", b"%%")
        self._first = b"id: %d" + form.end + head + b"%b"
        self._next = form.blank + self._first
        self._only = self._first + form.blank

    def stamp(self, block: bytes, first: int) -> tuple[bytes, int, list[bytes]] | None:
        """The block with cursors from `first` on, how many, and the upstream ids that it had.

        None if anything in it is not of this form.
        """
        if not block.startswith(self._begin) or not block.endswith(self._blank):
            return None
        line_ends = block.count(b"\n")
        count, rest = divmod(line_ends, self._lines)
        if rest or ((block.count(b"\r") != line_ends) if self._has_cr else b"\r" in block):
            return None
        inner = block[len(self._begin) : -len(self._blank)]
        if count == 1:
            return self._stamp_one(inner, first)
        bodies = self._split(inner)
        if bodies is None or len(bodies) != count:
            return None
        ids: list[bytes] = []
        if self._after is not None:
            if b"\0" in block:
                return None
            parted = [body.partition(self._after) for body in bodies]
            ids = [one[0] for one in parted]
            bodies = [one[2] for one in parted if one[1]]
            if len(bodies) != count:
                return None
        values: list[int | bytes] = [0] * (2 * count)
        values[::2] = range(first, first + count)
        values[1::2] = bodies
        template = self._first + self._next * (count - 1) + self._blank
        return template % tuple(values), count, ids

    def _stamp_one(self, body: bytes, first: int) -> tuple[bytes, int, list[bytes]] | None:
        ids: list[bytes] = []
        if self._after is not None:
            event_id, found, body = body.partition(self._after)
            if not found or b"\0" in event_id:
                return None
            ids.append(event_id)
        return self._only % (first, body), 1, ids

    def _split(self, inner: bytes) -> list[bytes] | None:
        """What stands between the separators; None if some event begins in another way.

        A search for the whole separator is prepared anew for each piece, one for its beginning is not.
        """
        separator = self._separator
        pieces = inner.split(separator[:_EASY])
        rest = len(separator) - _EASY
        if rest <= 0:
            return pieces
        if inner.count(separator) != len(pieces) - 1:
            return None
        return [pieces[0], *[piece[rest:] for piece in pieces[1:]]]


def learn(block: bytes, token: tuple[bytes, bytes], stamp: bytes) -> Usual | None:
    """The form of the first event of a block; None if it is no progress under this stamp, or unusual.

    `token` is the anchored stamp and what stands for it towards the client.
    """
    raw = sse.split(block)[0]
    event = sse.parse(raw)
    message = read_message(event.data or b"", is_located=False)
    if message.kind is not Kind.NOTIFICATION or message.method != "notifications/progress":
        return None
    if message.token != stamp or raw.count(token[0]) != 1:
        return None
    end = raw.index(token[0]) + len(token[0]) + 1
    if raw[end - 1 : end] not in _BEHIND_TOKEN:
        return None
    for form in PLAIN_FORMS:
        if raw.startswith(form.begin) and raw.endswith(form.blank) and form.count(raw) == 1:
            return Usual(form, raw[:end], None, token)
    for form in ID_FORMS:
        if raw.startswith(form.begin) and raw.endswith(form.blank) and form.count(raw) == 1:
            at = raw.find(form.after, len(form.begin))
            return Usual(form, form.begin, raw[at:end], token) if at >= 0 else None
    return None

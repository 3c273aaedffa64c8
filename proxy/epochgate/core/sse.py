"""Server-sent events as bytes: cut a stream into whole events, read them, give them other ids.

The bytes of an event are kept as they came. A `Framer` looks at each byte once; work on whole blocks
is done by searches in C, and anything that these cannot prove to be usual is left to `split` and
`parse`. Lines end in LF, CRLF or CR, also mixed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

KEEPALIVE = b": keepalive\n\n"
KEEPALIVE_ONE_LINE = b": keepalive\n"  # W13: each blank line uses up one of Java's demand units

_BOM = b"\xef\xbb\xbf"
_LF = 10
_CR = 13
_MAX_RETRY_DIGITS = 15  # a longer `retry` is no time anybody waits for; int() refuses 4,300 digits


class Framer:
    """Cuts a byte stream into whole events; a byte order mark at the start is removed.

    An event that ends in CR after an LF or CRLF is held until the next byte shows whether an LF
    belongs to it. In a stream of bare CRs it is released at once and such an LF is swallowed.
    """

    __slots__ = (
        "_chunks",
        "_head",
        "_is_cr_held",
        "_is_plain",
        "_is_start",
        "_last",
        "_pending",
        "_swallows_lf",
    )

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._pending = 0
        self._last = _LF  # the last byte seen; a stream starts as after a blank line
        self._is_cr_held = False
        self._swallows_lf = False
        self._is_start = True
        self._is_plain = False  # between two events, with nothing held back or to be looked at
        self._head = b""

    def __repr__(self) -> str:
        return f"<Framer {self.pending} pending>"

    @property
    def pending(self) -> int:
        """Bytes held of the event that is not complete."""
        return self._pending + len(self._head)

    def feed(self, data: bytes) -> bytes:
        """The events that `data` completes, whole and concatenated; b"" if there are none."""
        if self._is_plain and (data[-2:] == b"\n\n" or data[-4:] == b"\r\n\r\n"):
            return data  # whole events on both sides of a read, as nearly always
        block = self._feed(data)
        self._is_plain = not (
            self._chunks or self._is_start or self._swallows_lf or self._is_cr_held or self._last != _LF
        )
        return block

    def _feed(self, data: bytes) -> bytes:
        if self._is_start:
            data = self._strip_bom(data)
        if self._swallows_lf and data:
            self._swallows_lf = False
            if data[0] == _LF:
                self._last = _LF
                data = data[1:]
        if not data:
            return b""
        cut = self._find_cut(data)
        self._is_cr_held = data[-1] == _CR and self._byte_before_last(data) == _LF
        self._last = data[-1]
        if cut < 0:
            self._keep(data)
            return b""
        self._swallows_lf = cut == len(data) and self._last == _CR
        if not self._chunks:
            if cut == len(data):
                return data
            self._keep(data[cut:])
            return data[:cut]
        self._chunks.append(data[:cut])
        block = b"".join(self._chunks)
        self._chunks.clear()
        self._pending = 0
        if cut < len(data):
            self._keep(data[cut:])
        return block

    def peek(self, size: int) -> bytes:
        """At most `size` bytes of the incomplete event, from its beginning."""
        return b"".join(self._chunks)[:size]

    def finish(self, *, is_cut: bool) -> bytes:
        """The event whose last line ends in a CR that was held, now that nothing follows it.

        If the bytes were cut there its LF is put there: what comes next would follow that CR, in readers
        that know CRLF only.
        """
        if not self._is_cr_held:
            return b""
        self._is_cr_held = False
        block = b"".join((*self._chunks, b"\n" if is_cut else b""))
        self._chunks.clear()
        self._pending = 0
        return block

    def take_tail(self) -> bytes:
        """Give up the incomplete event, to stream it through (R9).

        Its last byte that ends no line stays behind with what follows it, so that the next block
        begins inside this event: `split(block)[0]` is then the rest of it.
        """
        tail = b"".join(self._chunks)
        kept = max(len(tail.rstrip(b"\r\n")) - 1, 0)
        self._chunks = [tail[kept:]] if kept < len(tail) else []
        self._pending = len(tail) - kept
        return tail[:kept]

    def _keep(self, data: bytes) -> None:
        self._chunks.append(data)
        self._pending += len(data)

    def _strip_bom(self, data: bytes) -> bytes:
        data = self._head + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._head = data
            return b""
        self._head = b""
        self._is_start = False
        return data.removeprefix(_BOM)

    def _byte_before_last(self, data: bytes) -> int:
        return data[-2] if len(data) > 1 else self._last

    def _find_cut(self, data: bytes) -> int:
        """Where the last complete event ends in `data`; -1 if none ends there.

        A blank line is one of the pairs LF LF, LF CR and CR CR, with an LF after a CR.
        """
        if b"\r" not in data:
            found = data.rfind(b"\n\n")
            return found + 2 if found >= 0 else self._find_cut_at_start(data)
        end = len(data)
        if data[-1] == _CR and self._byte_before_last(data) == _LF:
            end -= 1  # held: the next byte decides where this event ends
        found = data.rfind(b"\n\r", 0, end)
        found = max(found, data.rfind(b"\n\n", max(found, 0), end))
        found = max(found, data.rfind(b"\r\r", max(found, 0), end))
        if found < 0:
            return self._find_cut_at_start(data)
        return self._after_cr(data, found + 1)

    def _find_cut_at_start(self, data: bytes) -> int:
        """The same for a blank line that began in what came before `data`."""
        first = data[0]
        if self._is_cr_held and first != _CR:
            return 1 if first == _LF else 0
        if first == _LF and self._last == _LF:
            return 1
        if first != _CR or self._last not in (_LF, _CR):
            return -1
        if len(data) == 1 and self._last == _LF:
            return -1
        return self._after_cr(data, 0)

    @staticmethod
    def _after_cr(data: bytes, at: int) -> int:
        is_crlf = data[at] == _CR and data[at + 1 : at + 2] == b"\n"
        return at + 2 if is_crlf else at + 1


def split(block: bytes) -> list[bytes]:
    """The events of a block of whole events, each with its blank line; joined they are the block.

    A blank line that ends no event is an element of its own.
    """
    if b"\r" not in block and b"\n\n\n" not in block and block[:1] != b"\n":
        events = [event + b"\n\n" for event in block.split(b"\n\n")]
        last = events.pop()[:-2]
        return [*events, last] if last else events
    return _split_by_line(block)


def _split_by_line(block: bytes) -> list[bytes]:
    events: list[bytes] = []
    lines: list[bytes] = []
    for line in block.splitlines(keepends=True):
        lines.append(line)
        if line in (b"\n", b"\r\n", b"\r"):
            events.append(b"".join(lines))
            lines.clear()
    if lines:
        events.append(b"".join(lines))
    return events


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `data` is None without a data line and b"" with an empty one; `retry` is in ms."""

    raw: bytes
    id: bytes | None
    name: bytes
    data: bytes | None
    retry: int | None

    @property
    def is_message(self) -> bool:
        """Whether it carries a message: priming (empty or `{}` data), comments and Go's `prime`
        and `close` do not."""
        if self.name not in (b"", b"message") or not self.data:
            return False
        return self.data.strip() not in (b"", b"{}")


def parse(raw: bytes) -> Event:
    """Read one event by the rules of the WHATWG; unknown fields and comments are passed over."""
    event_id: bytes | None = None
    name = b""
    data: list[bytes] = []
    retry: int | None = None
    for line in raw.splitlines():
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                data.append(value)
            case b"event":
                name = value
            case b"id" if b"\0" not in value:
                event_id = value
            case b"retry" if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
                retry = int(value)
    return Event(raw, event_id, name, b"\n".join(data) if data else None, retry)


def with_cursor(raw: bytes, cursor: int) -> bytes:
    """The event under the id `cursor`: its own id lines removed, every other line as it stands."""
    if raw[:2] == b"id" or b"\nid" in raw or b"\rid" in raw:
        raw = without_fields(raw, (b"id",))
    return b"id: %d%b%b" % (cursor, _line_end(raw), raw)


def without_fields(raw: bytes, fields: Collection[bytes]) -> bytes:
    """The event less the lines of these fields, every other line as it stands."""
    return _joined([line for line in raw.splitlines(keepends=True) if _field(line) not in fields])


def _joined(lines: list[bytes]) -> bytes:
    """What is left of an event's lines; its blank line does not become part of the end before it."""
    if len(lines) > 1 and lines[-1] == b"\n" and lines[-2].endswith(b"\r"):
        lines[-1] = b"\r\n"
    return b"".join(lines)


def with_data(event: Event, data: bytes) -> bytes:
    """The event's bytes with other data; lines of data that are the same stay as they are."""
    values = data.split(b"\n")
    lines = event.raw.splitlines(keepends=True)
    places = [at for at, line in enumerate(lines) if _field(line) == b"data"]
    if not places:
        return event.raw
    end = _line_end(event.raw)
    if len(values) == len(places):
        for at, value in zip(places, values, strict=True):
            lines[at] = _with_value(lines[at], value)
        return b"".join(lines)
    lines[places[0]] = b"".join(b"data: %b%b" % (value, end) for value in values)
    left_out = set(places[1:])
    return _joined([line for at, line in enumerate(lines) if at not in left_out])


def _with_value(line: bytes, value: bytes) -> bytes:
    content = line.rstrip(b"\r\n")
    old = content.partition(b":")[2].removeprefix(b" ")
    if old == value:
        return line
    has_space = content[:5] != b"data:" or content[5:6] == b" " or value[:1] == b" "
    return b"data:%b%b%b" % (b" " if has_space else b"", value, line[len(content) :])


def _field(line: bytes) -> bytes:
    return line.rstrip(b"\r\n").partition(b":")[0] if len(line) < 64 else line[:64].partition(b":")[0]


def _line_end(raw: bytes) -> bytes:
    at = raw.find(b"\n")
    if at < 0:
        return b"\r"
    return b"\r\n" if raw[at - 1 : at] == b"\r" else b"\n"


def message(data: bytes, cursor: int) -> bytes:
    """A message event of our own; `data` is one line."""
    return b"id: %d\nevent: message\ndata: %b\n\n" % (cursor, data)


def priming(cursor: int) -> bytes:
    """An event that gives the client an id and nothing else (R10)."""
    return b"id: %d\ndata: \n\n" % cursor

"""How servers usually write an event, so that a whole block of such events is known by counting.

A block that begins as a form says, goes on so after each blank line, and has no line end beside those
that this takes, consists of events of that form only: nothing in it has to be looked at one by one.
"""

from __future__ import annotations

# For events whose data is one JSON object: what stands before an upstream id (None: there is no id)
# and what stands between that and the object's first key.
_HEADS: tuple[tuple[bytes | None, bytes], ...] = (
    (None, b'event: message\ndata: {"'),
    (None, b'data: {"'),
    (None, b'event:message\ndata:{"'),
    (None, b'data:{"'),
    (b"id: ", b'\nevent: message\ndata: {"'),
    (b"event: message\nid: ", b'\ndata: {"'),
    (b"id: ", b'\ndata: {"'),
    (b"id:", b'\nevent:message\ndata:{"'),
)


class Form:
    """One way to write an event, with LF or CRLF, and what is searched for and written.

    `out` takes a cursor and what stands after `after`.
    """

    __slots__ = (
        "after",
        "begin",
        "blank",
        "end",
        "has_cr",
        "head",
        "line_count",
        "next_head",
        "out",
        "separator",
    )

    def __init__(self, before: bytes | None, after: bytes, end: bytes) -> None:
        self.end, self.has_cr = end, end == b"\r\n"
        self.blank = end + end
        self.after = after.replace(b"\n", end)
        self.begin = self.after if before is None else before.replace(b"\n", end)
        self.separator = self.blank + self.begin
        self.line_count = self.separator.count(b"\n") + (0 if before is None else after.count(b"\n"))
        kept = b"" if before is None else self.begin[: self.begin.index(b"id:")] + self.after[len(end) :]
        self.out = b"id: %d" + end + kept + b"%b" + self.blank
        self.head = b"id: %d" + end + self.begin  # for events without an upstream id
        self.next_head = self.blank + self.head

    def count(self, block: bytes) -> int:
        """The number of events in a block that begins and ends in this form, 0 if others are in it."""
        line_ends = block.count(b"\n")
        count, rest = divmod(line_ends, self.line_count)
        if rest or (count > 1 and block.count(self.separator) != count - 1):
            return 0
        if self.has_cr:
            return count if block.count(b"\r") == line_ends else 0
        return 0 if b"\r" in block else count


PLAIN_FORMS = tuple(Form(*head, end) for end in (b"\n", b"\r\n") for head in _HEADS if head[0] is None)
ID_FORMS = tuple(Form(*head, end) for end in (b"\r\n", b"\n") for head in _HEADS if head[0] is not None)


def stamp_cursors(block: bytes, first: int) -> tuple[bytes, int] | None:
    """Put `id: first`, `first + 1`, … before the events of a usual block.

    Returns the new block and the number of events, or None unless every event is
    `[event: message] data: {"…` without any other line (the caller then takes the events apart).
    """
    for form in PLAIN_FORMS:
        if block.startswith(form.begin) and block.endswith(form.blank):
            break
    else:
        return None
    # The block is split where its events begin; as many line ends as their forms have prove that
    # nothing else stands in it.
    bodies = block.split(form.separator)
    count = len(bodies)
    if block.count(b"\n") != count * form.line_count:
        return None
    if form.has_cr and block.count(b"\r") != block.count(b"\n"):
        return None
    if not form.has_cr and b"\r" in block:
        return None
    if count == 1:
        return b"id: %d%b%b" % (first, form.end, block), 1
    parts = [b""] * (2 * count)
    parts[1::2] = bodies
    parts[2::2] = map(form.next_head.__mod__, range(first + 1, first + count))
    parts[0] = b"id: %d%b" % (first, form.end)
    return b"".join(parts), count


def restamp_cursors(block: bytes, first: int) -> tuple[bytes, list[bytes]] | None:
    """`stamp_cursors` for events that each carry one upstream id, which is taken out.

    Returns the new block and the upstream ids in order, or None if anything unusual stands in it.
    """
    for form in ID_FORMS:
        if block.startswith(form.begin) and block.endswith(form.blank):
            at = block.find(form.after, len(form.begin))
            if at >= 0 and (count := form.count(block)):
                return _restamp(block, form, first, count, at)
    return None


def _restamp(block: bytes, form: Form, first: int, count: int, at: int) -> tuple[bytes, list[bytes]] | None:
    """`at` is where the first id ends."""
    begin, end = len(form.begin), -len(form.blank)
    if b"\0" in block:
        return None
    if count == 1:
        return form.out % (first, block[at + len(form.after) : end]), [block[begin:at]]
    bodies = block[begin:end].split(form.separator)
    ids, found, rests = zip(*[body.partition(form.after) for body in bodies], strict=True)
    if b"" in found:
        return None
    stamped = map(form.out.__mod__, zip(range(first, first + count), rests, strict=True))
    return b"".join(stamped), list(ids)

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

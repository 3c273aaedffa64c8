"""Replace a value at the top level of a JSON object that is passed on before it is complete.

For answers above the size that is kept (R9, R34). Candidates are found by a search for the value, a
random stamp that stands nowhere else; what lies before one is reduced to its brackets by a few passes
in C, so that an equal member further inside is left alone.
"""

from __future__ import annotations

import re

_LOOKBACK_BYTES = 96  # the key, its colon and their white space, before a value
_VALUE_ENDS = b",}] \t\r\n"
_QUOTE = ord(b'"')
_MEMBER = re.compile(
    rb'[ \t\r\n]*"((?:[^"\\]|\\.)*+)"[ \t\r\n]*:[ \t\r\n]*'
    rb'(?:("(?:[^"\\]|\\.)*+"|[-+.0-9A-Za-z]++)[ \t\r\n]*[,}])?',
    re.DOTALL,
)


def leading_members(text: bytes) -> dict[bytes, bytes]:
    """The first members of an object that is not whole: key to value, each as it stands.

    Reading ends at the first value that is an object, an array or cut, which is b"".
    """
    members: dict[bytes, bytes] = {}
    at = text.find(b"{") + 1
    while at > 0 and (found := _MEMBER.match(text, at)) is not None:
        key, value = found.groups()
        members.setdefault(key, value or b"")
        at = found.end() if value else 0
    return members


class TopLevelReplacer:
    """Replaces the JSON text `old` by `new` where it is the value of `key` at the depth `level`.

    Level 1 is the top. Digits are recognised within quotes too, for servers that turn ids into text.
    Text that is not JSON may stand before the object if it has no quotes and brackets (`data: `).
    """

    __slots__ = (
        "_depth",
        "_held",
        "_is_escape_open",
        "_is_in_string",
        "_key",
        "_level",
        "_new",
        "_old",
        "_recent",
        "count",
    )

    def __init__(self, key: bytes, old: bytes, new: bytes, level: int = 1) -> None:
        self._level = level
        self._old = old
        self._new = new
        self._key = re.compile(rb'(?<!\\)"%b"[ \t\r\n]*:[ \t\r\n]*\Z' % re.escape(key))
        self._held = b""
        self._recent = b""
        self._depth = 0
        self._is_in_string = False
        self._is_escape_open = False
        self.count = 0  # replacements made

    def __repr__(self) -> str:
        return f"<TopLevelReplacer depth {self._depth}, {self.count} replaced>"

    def feed(self, chunk: bytes) -> bytes:
        """What can be passed on after this chunk; one byte more than `old` has stays behind."""
        data = self._held + chunk
        size = len(self._old)
        parts: list[bytes] = []
        done = scanned = 0
        at = data.find(self._old)
        while 0 <= at < len(data) - size:
            start, end = self._find_value(data, at)
            if start < end:
                self._scan(data[scanned:start])
                scanned = start
                if self._depth == self._level:
                    parts += (data[done:start], self._new)
                    done = end
                    self.count += 1
            at = data.find(self._old, at + 1)
        cut = max(done, len(data) - size - 1)
        self._scan(data[scanned:cut])
        parts.append(data[done:cut])
        self._recent = (self._recent + data[max(cut - _LOOKBACK_BYTES, 0) : cut])[-_LOOKBACK_BYTES:]
        self._held = data[cut:]
        return b"".join(parts)

    def finish(self) -> bytes:
        """The bytes that stayed behind."""
        held, self._held = self._held, b""
        return held

    def _find_value(self, data: bytes, at: int) -> tuple[int, int]:
        """Where the value begins and ends, if `old` at `at` is a whole one behind the key; else (0, 0).

        Quotes that no backslash precedes begin or end a string, so a hit is never inside one.
        """
        start, end = at, at + len(self._old)
        if self._old.isdigit() and at and data[at - 1] == data[end] == _QUOTE:
            start, end = start - 1, end + 1
        elif data[end] not in _VALUE_ENDS:
            return 0, 0
        before = data[max(start - _LOOKBACK_BYTES, 0) : start]
        if start < _LOOKBACK_BYTES:
            before = self._recent + before
        return (start, end) if self._key.search(before) is not None else (0, 0)

    def _scan(self, part: bytes) -> None:
        """Follow strings and brackets through the next bytes."""
        if self._is_escape_open and part:
            part = part[1:]
            self._is_escape_open = False
        if (len(part) - len(part.rstrip(b"\\"))) % 2:
            part = part[:-1]
            self._is_escape_open = True
        if b"\\" in part:
            part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = part.split(b'"')
        outside = b"".join(pieces[self._is_in_string :: 2])
        self._depth += outside.count(b"{") + outside.count(b"[")
        self._depth -= outside.count(b"}") + outside.count(b"]")
        if len(pieces) % 2 == 0:
            self._is_in_string = not self._is_in_string

"""Which pages may read what the proxy says itself (W11).

A browser shows a page an answer only under the `Access-Control-*` lines that allow it. Those are the
server's to give: what it said last to an Origin in this session is said again, to that Origin alone, where
the proxy answers in its place.
"""

from __future__ import annotations

from epochgate.core.http import Headers, find

MAX_ORIGINS = 8  # of a session; the one asked for longest ago is forgotten
_PREFIX = b"access-control-"
_ALLOWED = b"access-control-allow-origin"
_VARY = b"vary"


class Browsers:
    """What the server told each Origin of a session."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[bytes, Headers] = {}

    def told(self, origin: bytes, headers: Headers) -> None:
        """The server answered a request of `origin` under these headers."""
        self._lines.pop(origin, None)
        self._lines[origin] = _lines_of(headers)
        if len(self._lines) > MAX_ORIGINS:
            del self._lines[next(iter(self._lines))]

    def allowed(self, origin: bytes, headers: Headers) -> Headers:
        """The headers of an answer to `origin`, with the server's lines if they are not there."""
        if find(headers, _ALLOWED) in (b"*", origin):
            return headers
        own, lines = _lines_of(headers), self._lines.get(origin, ())
        if own == lines:
            return headers
        kept = tuple(pair for pair in headers if not pair[0].lower().startswith(_PREFIX))
        return kept + tuple(pair for pair in lines if pair not in kept)


def _lines_of(headers: Headers) -> Headers:
    return tuple(pair for pair in headers if (name := pair[0].lower()).startswith(_PREFIX) or name == _VARY)

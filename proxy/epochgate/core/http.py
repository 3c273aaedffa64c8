"""HTTP headers as the core sees them: raw name and value pairs in the order they came."""

from __future__ import annotations

from collections.abc import Iterable

Headers = tuple[tuple[bytes, bytes], ...]

SESSION_ID = b"mcp-session-id"
PROTOCOL_VERSION = b"mcp-protocol-version"
LAST_EVENT_ID = b"last-event-id"


def find(headers: Headers, name: bytes) -> bytes | None:
    """The value of the first header called `name` (given in lower case), or None."""
    for key, value in headers:
        if len(key) == len(name) and key.lower() == name:
            return value
    return None


def without(headers: Headers, names: Iterable[bytes]) -> Headers:
    """The headers less those called one of `names` (given in lower case)."""
    removed = frozenset(names)
    return tuple(pair for pair in headers if pair[0].lower() not in removed)


def with_value(headers: Headers, name: bytes, value: bytes) -> Headers:
    """The headers with exactly one `name`: replaced where the first one stood, or appended."""
    lowered = name.lower()
    out: list[tuple[bytes, bytes]] = []
    is_placed = False
    for pair in headers:
        if pair[0].lower() != lowered:
            out.append(pair)
        elif not is_placed:
            out.append((pair[0], value))
            is_placed = True
    if not is_placed:
        out.append((name, value))
    return tuple(out)


def media_type(headers: Headers) -> bytes:
    """The media type of `Content-Type` in lower case without parameters, or b""."""
    value = find(headers, b"content-type")
    return b"" if value is None else value.partition(b";")[0].strip().lower()

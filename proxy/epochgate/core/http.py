"""HTTP headers as the core sees them: raw name and value pairs in the order they came."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

Headers = tuple[tuple[bytes, bytes], ...]

SESSION_ID = b"mcp-session-id"
PROTOCOL_VERSION = b"mcp-protocol-version"
LAST_EVENT_ID = b"last-event-id"
ORIGIN = b"origin"
_LOOKED = 32
_NEVER = re.compile(rb"(?:^|;)\s*q\s*=\s*0(?:\.0*)?\s*(?:;|$)")  # a weight of nothing


# The heads looked at last, each held with its fields, so that its `id` is nobody else's: each is asked
# several things, and a client's comes again.
_looked: dict[int, tuple[Headers, dict[bytes, bytes]]] = {}


def fields(headers: Headers) -> Mapping[bytes, bytes]:
    """The first value of each name, in lower case."""
    looked = _looked.get(id(headers))
    if looked is not None:
        return looked[1]
    if len(_looked) >= _LOOKED:
        _looked.clear()
    found = {key.lower(): value for key, value in reversed(headers)}
    _looked[id(headers)] = headers, found
    return found


def find(headers: Headers, name: bytes) -> bytes | None:
    """The value of the first header called `name` (given in lower case), or None."""
    looked = _looked.get(id(headers))  # as `fields` does, without the call: this is asked most of all
    return (fields(headers) if looked is None else looked[1]).get(name)


def without(headers: Headers, names: Iterable[bytes]) -> Headers:
    """The headers less those called one of `names` (given in lower case)."""
    removed = names if isinstance(names, frozenset) else frozenset(names)
    return tuple([pair for pair in headers if pair[0].lower() not in removed])


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


def set_cookies(headers: Headers) -> dict[bytes, bytes]:
    """The cookies that an answer sets, name to value, whatever their attributes."""
    found: dict[bytes, bytes] = {}
    for key, value in headers:
        if key.lower() == b"set-cookie":
            name, _, rest = value.partition(b"=")
            found[name.strip()] = rest.partition(b";")[0].strip()
    return found


def with_cookies(headers: Headers, cookies: Mapping[bytes, bytes]) -> Headers:
    """The headers with these cookies in the place of the client's own of the same names (W16)."""
    own = [pair.strip() for key, value in headers if key.lower() == b"cookie" for pair in value.split(b";")]
    kept = [pair for pair in own if pair and pair.partition(b"=")[0].strip() not in cookies]
    both = b"; ".join([*kept, *(b"%b=%b" % pair for pair in cookies.items())])
    return (*without(headers, (b"cookie",)), (b"Cookie", both))


def is_coded(headers: Headers) -> bool:
    """Whether the body is in a content coding, so that it cannot be read as it is."""
    return find(headers, b"content-encoding") not in (None, b"", b"identity")


_OF_STREAMS = frozenset((b"text/event-stream", b"text/*", b"*/*"))


def accepts_events(headers: Headers) -> bool:
    """Whether a client that sent these headers takes an event stream; one that does not say so does."""
    said = b",".join([value for name, value in headers if name.lower() == b"accept"]).lower()
    if not said.strip(b", \t"):
        return True
    for one in said.split(b","):
        media, _, rest = one.partition(b";")
        if media.strip() in _OF_STREAMS and not _NEVER.search(rest):
            return True
    return False


def media_type(headers: Headers) -> bytes:
    """The media type of `Content-Type` in lower case without parameters, or b""."""
    value = find(headers, b"content-type")
    return b"" if value is None else value.partition(b";")[0].strip().lower()

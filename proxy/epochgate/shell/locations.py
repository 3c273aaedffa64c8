"""Redirects: never followed, and told in the terms of the client.

A server that builds an absolute `Location` names an address that its clients may not reach. One that names
the server itself becomes a reference without an authority, which the client resolves against the
address that it knows; any other passes byte for byte.
"""

from __future__ import annotations

import re

_ABSOLUTE = re.compile(rb"(https?)://([^/?#\\@\x00-\x20\x7f]+)([/?#][^\x00-\x20\x7f]*)?", re.IGNORECASE)
_PORTS = {b"http": b"80", b"https": b"443"}
# A reference that begins so would name another host.
_TWO_SLASHES = (b"//", b"/\\")


class Home:
    """The server's own address: its URL's, and the `Host` under which a request went up."""

    __slots__ = ("_authorities", "_base_path", "_scheme")

    def __init__(self, scheme: bytes, authority: bytes, base_path: bytes, host: bytes | None = None) -> None:
        names = (authority,) if host is None else (authority, host)
        self._scheme = scheme
        self._authorities = tuple(_without_usual_port(name, scheme) for name in names)
        self._base_path = base_path

    def localised(self, location: bytes) -> bytes:
        """`location` as the client is told it."""
        found = _ABSOLUTE.fullmatch(location)
        if found is None or found[1].lower() != self._scheme:
            return location
        if _without_usual_port(found[2], self._scheme) not in self._authorities:
            return location
        rest = found[3] or b""
        base = self._base_path
        if base:
            if not rest.startswith(base) or rest[len(base) : len(base) + 1] not in (b"/", b"?", b"#", b""):
                return location  # no target of a client leads there
            rest = rest[len(base) :]
        if rest.startswith(_TWO_SLASHES):
            return location
        return rest if rest.startswith(b"/") else b"/" + rest


def _without_usual_port(authority: bytes, scheme: bytes) -> bytes:
    lowered = authority.lower()
    name, colon, port = lowered.rpartition(b":")
    return name if colon and port in (b"", _PORTS[scheme]) else lowered

"""Where a server is, as its URL says it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohappyeyeballs.types import AddrInfoType

from epochgate.shell.locations import Home

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the upstream is. `authority` is its `Host` value, `base_path` stands before targets."""

    scheme: str
    host: str
    port: int
    authority: bytes
    base_path: bytes = b""

    @classmethod
    def from_url(cls, url: str) -> Origin:
        """`url` is `http(s)://host[:port][/base]`; anything else raises ValueError saying why."""
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS:
            raise ValueError(f"{url!r} is no http:// or https:// URL")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"{url!r} has more than a host, a port and a path")
        if not parts.hostname:
            raise ValueError(f"{url!r} names no host")
        port = DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        authority = name if port == DEFAULT_PORTS[parts.scheme] else f"{name}:{port}"
        base = parts.path.rstrip("/")
        return cls(parts.scheme, parts.hostname, port, _ascii(authority), _ascii(base))

    def home(self, host: bytes | None = None) -> Home:
        """What a `Location` may call this server, to which a request went under `host`."""
        return Home(self.scheme.encode(), self.authority, self.base_path, host)


def _ascii(text: str) -> bytes:
    if not text.isascii() or any(character <= " " for character in text):
        raise ValueError(f"{text!r} is not plain ASCII")
    return text.encode()


def literal(origin: Origin) -> AddrInfoType | None:
    """The address of an origin whose URL has one instead of a name."""
    host, port = origin.host, origin.port
    for family, address in ((socket.AF_INET, (host, port)), (socket.AF_INET6, (host, port, 0, 0))):
        if _is_literal(family, host):
            return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address
    return None


async def look_up(origin: Origin, loop: asyncio.AbstractEventLoop) -> Sequence[AddrInfoType]:
    """Every address of an origin's host. Raises OSError, or UnicodeError for what can be no name."""
    known = literal(origin)
    if known is not None:
        return (known,)
    return await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)


def _is_literal(family: socket.AddressFamily, host: str) -> bool:
    try:
        socket.inet_pton(family, host)
    except OSError:
        return False
    return True

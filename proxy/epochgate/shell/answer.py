"""The bytes of an answer's head, the states an answer goes through, and what it is written to."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Protocol

from epochgate.core.enums import Enum
from epochgate.core.http import Headers

WITHOUT_BODY = frozenset((204, 304))
WITHOUT_TYPE = frozenset((202, 204))
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


class Phase(Enum):
    WAITING = "waiting"
    SIZED = "sized"  # the answer has a known length
    CHUNKED = "chunked"
    DELIMITED = "delimited"  # its end is the end of the connection
    ENDED = "ended"
    ABORTED = "aborted"
    LEFT = "left"


STARTED = frozenset((Phase.SIZED, Phase.CHUNKED, Phase.DELIMITED))
OVER = frozenset((Phase.ENDED, Phase.ABORTED, Phase.LEFT))


class Line(Protocol):
    """The client's connection, as an exchange uses it."""

    @property
    def transport(self) -> asyncio.Transport | None: ...

    @property
    def writing_paused(self) -> bool: ...

    @property
    def is_closing_soon(self) -> bool:
        """Whether an answer that begins now is to be the connection's last."""

    @property
    def is_closing_now(self) -> bool:
        """Whether the connection is to be closed behind an answer, whatever its head said."""


def build_head(
    status: int, reason: bytes | None, headers: Headers, framing: bytes, connection: bytes
) -> bytes:
    """A whole head. `framing` is a header line with its end, or nothing; `connection` a value, or b"".

    `reason` None stands for the usual one.
    """
    lines = [b"HTTP/1.1 %d %b" % (status, _REASONS.get(status, b"") if reason is None else reason)]
    lines += [name + b": " + value for name, value in headers]
    if connection:
        lines.append(b"Connection: " + connection)
    return b"\r\n".join(lines) + b"\r\n" + framing + b"\r\n"


def length_line(length: int | None) -> bytes:
    return b"" if length is None else b"Content-Length: %d\r\n" % length


def chunk(data: bytes) -> bytes:
    """One chunk; never the last one, which empty bytes would be."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""

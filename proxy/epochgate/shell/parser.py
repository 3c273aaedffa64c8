"""The parser of the server's answers: aiohttp's, in C, as a connection to the server uses it.

It is fed what was read and leaves the bytes of a body with a reader that keeps nothing else. Whatever its
callbacks raise on bytes that are no HTTP is one of `PARSE_ERRORS`.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, cast

from aiohttp.base_protocol import BaseProtocol
from aiohttp.hdrs import CONTENT_LENGTH
from aiohttp.http import HttpProcessingError, HttpResponseParser, RawResponseMessage
from aiohttp.streams import StreamReader

from epochgate.core.enums import Enum
from epochgate.shell.answer import WITHOUT_BODY

PARSE_ERRORS = (HttpProcessingError, RuntimeError, ValueError, AssertionError, AttributeError)
# A reader that is emptied on every read needs no limit of its own: back-pressure is `Leg.pause`.
_NO_LIMIT = 1 << 30


class Delimiter(Enum):
    """What marks the end of an answer's body."""

    NOTHING = "nothing"  # no body: HEAD, 204, 304
    LENGTH = "length"
    CHUNKS = "chunks"
    CLOSE = "close"


class Framing(NamedTuple):
    """How the upstream framed its answer; `length` is its `Content-Length` if it sent one."""

    delimiter: Delimiter
    length: int | None = None


class BodyReader(StreamReader):
    """What the parser fed since the last read of the socket.

    The reader that the parser makes notes where each chunk ends, for which nobody asks here: an
    answer's reader becomes one of these, which keeps nothing but the bytes.
    """

    __slots__ = ()

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        self._buffer.append(data)
        return False

    def begin_http_chunk_receiving(self) -> None:
        return

    def end_http_chunk_receiving(self) -> None:
        return

    def take(self) -> bytes:
        buffer = self._buffer
        if len(buffer) == 1:
            return buffer.pop()
        data = b"".join(buffer)
        buffer.clear()
        return data


def make_parser(
    protocol: object, loop: asyncio.AbstractEventLoop, header_bytes: int, max_headers: int, *, is_head: bool
) -> HttpResponseParser:
    """A parser for one answer. `is_head`: it has no body whatever it says.

    Of `protocol` it calls `pause_reading` and `resume_reading`, nothing else.
    """
    return HttpResponseParser(
        cast(BaseProtocol, protocol),
        loop,
        _NO_LIMIT,
        max_line_size=header_bytes,
        max_field_size=header_bytes,
        max_headers=max_headers,
        response_with_body=not is_head,
        read_until_eof=True,
        auto_decompress=False,
    )


def read_body(payload: StreamReader) -> BodyReader:
    """The reader of a body that is not whole yet, made of the one that came with its head."""
    payload.__class__ = BodyReader
    return cast(BodyReader, payload)


def framing_of(message: RawResponseMessage, *, is_head: bool) -> Framing:
    """How the body behind this head is framed; `is_head`: behind an answer to HEAD."""
    text = message.headers.get(CONTENT_LENGTH)
    length = int(text) if text is not None and text.isdecimal() and text.isascii() else None
    if is_head or message.code in WITHOUT_BODY:
        return Framing(Delimiter.NOTHING, length)
    if message.chunked:
        return Framing(Delimiter.CHUNKS)
    return Framing(Delimiter.CLOSE if length is None else Delimiter.LENGTH, length)

"""HTTP and SSE of the check: aiohttp, with `aiohttp-sse-client` as the parser of event streams.

That client reconnects by itself, logs refusals, swallows events without data and takes a status only as an
exception. So it is never let to connect: it gets an answer that is already there, and its first
attempt to come back, told by `on_error`, is the end of the stream.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
from aiohttp_sse_client.client import EventSource  # type: ignore[import-untyped]  # it ships no types

MAX_REQUESTS = 30
MAX_BODY = 1 << 20


class CannotTell(Exception):
    """One line that says why the check came to nothing."""


class _Ended(Exception):
    """The stream is at its end; the SSE client would reconnect now."""


class _NotAnswered(Exception):
    """Raised past aiohttp's hidden second attempt of GET and DELETE."""


@dataclass(frozen=True, slots=True)
class Line:
    """An event as the SSE client gives it; `id` is the last id seen, as browsers have it."""

    id: str
    data: str


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _NotAnswered(_reason(error)) from error


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or "not valid for the URL"
        return f"TLS failed: certificate not accepted: {why}; give its authorities by --ca"
    if isinstance(error, aiohttp.ClientSSLError):
        return "TLS failed: the handshake is not accepted; a server may want a --certificate"
    if isinstance(error, aiohttp.ClientConnectorError):
        system = error.os_error
        # asyncio wraps the system's words into its own; names that do not resolve have other numbers.
        is_system = system.errno is not None and system.errno > 0
        why = os.strerror(system.errno or 0) if is_system else system.strerror or type(system).__name__
        return f"cannot connect: {why.lower()}; give the URL of a server that runs"
    return f"the connection failed ({type(error).__name__})"


class Wire:
    """Each request on a connection of its own, counted."""

    def __init__(
        self, url: str, headers: dict[str, str], timeout_s: float, tls: ssl.SSLContext | None = None
    ) -> None:
        self._url = url
        self._headers = headers
        self.sent = 0
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, ssl=True if tls is None else tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=timeout_s, sock_read=timeout_s),
            middlewares=(_once,),
        )

    async def ask(self, method: str, headers: dict[str, str], body: Any = None) -> aiohttp.ClientResponse:
        """The answer's head; raises `CannotTell` where none came."""
        if self.sent >= MAX_REQUESTS:
            raise CannotTell(f"stopped: {MAX_REQUESTS} requests are the bound")
        self.sent += 1
        try:
            return await self._http.request(
                method, self._url, headers={**self._headers, **headers}, json=body, allow_redirects=False
            )
        except TimeoutError:
            raise CannotTell("no answer in time") from None
        except _NotAnswered as error:
            raise CannotTell(str(error)) from None
        except (aiohttp.ClientError, ValueError) as error:
            raise CannotTell(_reason(error)) from None

    async def close(self) -> None:
        await self._http.close()


def is_stream(response: aiohttp.ClientResponse) -> bool:
    return response.status == 200 and response.content_type == "text/event-stream"


async def body_of(response: aiohttp.ClientResponse) -> bytes:
    """The body up to `MAX_BODY`; the connection is closed after it."""
    try:
        body = b""
        while len(body) < MAX_BODY and (block := await response.content.read(MAX_BODY)):
            body += block
        return body
    except (aiohttp.ClientError, TimeoutError):
        return b""
    finally:
        response.close()


class _Given:
    """What the SSE client takes for a session: it gives the answer that is there."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def request(self, *_: Any, **__: Any) -> aiohttp.ClientResponse:
        return self._response


def _at_the_end() -> None:
    raise _Ended


async def lines_of(response: aiohttp.ClientResponse) -> AsyncIterator[Line]:
    """The events until the stream ends, breaks or is quiet for the time limit; then it is closed."""
    source = EventSource(
        str(response.url), session=cast(aiohttp.ClientSession, _Given(response)), on_error=_at_the_end
    )
    try:
        await source.connect()
        while True:
            event = await anext(source)
            yield Line(event.last_event_id, event.data)
    except (_Ended, StopAsyncIteration, aiohttp.ClientError, TimeoutError, ValueError):
        return
    finally:
        response.close()

"""One connection of a client: aiohttp's request handler, less its answers, plus who left and how."""

from __future__ import annotations

import asyncio
import logging
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError, RawRequestMessage
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import StreamReader

from epochgate.core.delivery import TEXT_HEADERS
from epochgate.shell.exchange import Exchange
from epochgate.shell.headers import UNIX_PEER
from epochgate.shell.sockets import find_socket, is_peer_reading, tune_transport

if TYPE_CHECKING:
    from epochgate.shell.downstream import Server
    from epochgate.shell.headers import Allowed

_log = logging.getLogger("epochgate.shell")

# When a half-closed client is looked at again after a probe; the last value repeats.
_LOOKS_S = (0.01, 0.05, 0.25, 1.0, 5.0)
_TOO_MANY_HEADERS = "Too many headers"


class BadBody(Exception):
    """The bytes of a request's body are no HTTP."""


class Connection(web.RequestHandler):
    """Serves the requests of one client connection, one at a time."""

    __slots__ = (
        "_exchange",
        "_is_half_closed",
        "_look",
        "_server",
        "_write_bytes",
        "allowed",
        "body",
        "peer",
        "scheme",
    )

    def __init__(
        self,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        write_bytes: int,
        allowed: Allowed,
        **options: Any,
    ) -> None:
        super().__init__(server, loop=loop, **options)
        self._server = server
        self._write_bytes = write_bytes
        self.allowed = allowed
        self._exchange: Exchange | None = None
        self._is_half_closed = False
        self._look: asyncio.TimerHandle | None = None
        self.body: StreamReader | None = None  # of the request that is being read
        self.peer = ""
        self.scheme = b"http"

    @property
    def is_closing_soon(self) -> bool:
        """Whether an answer that begins now is to be this connection's last."""
        return self._server.is_draining or self._is_half_closed

    @property
    def is_closing_now(self) -> bool:
        """Whether the connection is to be closed behind an answer, whatever its head said."""
        return self._server.is_closing or self._is_half_closed

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request and has none."""
        return self._waiter is not None and not self._waiter.done() and not self._messages

    def begin(self, exchange: Exchange) -> None:
        """`exchange` is the one that runs from now on."""
        self._exchange = exchange
        # Soon, not now: its owner has to set its callbacks first.
        if self.transport is None:
            self._loop.call_soon(exchange.left)
        elif self._is_half_closed:
            self._loop.call_soon(self._judge_half_close)

    def finish(self, exchange: Exchange) -> None:
        if self._exchange is exchange:
            self._exchange = None

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def refuse(self, status: HTTPStatus) -> Exchange:
        """An exchange that is answered with `status` and closes the connection."""
        exchange = Exchange(
            0,
            self,
            method=b"",
            target=b"",
            raw_headers=(),
            body=b"",
            has_body=False,
            peer=self.peer,
            scheme=self.scheme,
            version=(1, 1),
            is_keep_alive=False,
        )
        text = status.phrase.encode() + b"\n"
        exchange.respond(status, TEXT_HEADERS, text)
        return exchange

    def break_off(self) -> None:
        """Break the connection and the answer that runs on it."""
        if self._exchange is not None:
            self._exchange.abort()
        elif self.transport is not None:
            self.transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        tune_transport(transport)
        cast(asyncio.Transport, transport).set_write_buffer_limits(self._write_bytes, self._write_bytes // 2)
        name = transport.get_extra_info("peername")
        self.peer = name[0] if isinstance(name, tuple) else ""
        sock = find_socket(transport)
        if sock is not None and sock.family == socket.AF_UNIX:
            self.peer = UNIX_PEER
        if transport.get_extra_info("ssl_object") is not None:
            self.scheme = b"https"
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.body is not None and self._messages and not self.body.is_eof():
            message = self._messages[-1][0]
            if not isinstance(message, RawRequestMessage):  # the parser failed inside this body
                self.body.set_exception(BadBody())

    def eof_received(self) -> bool:  # type: ignore[override]  # aiohttp declares None, asyncio a truth value
        # TLS knows no end of one direction alone.
        if self.is_idle or self.scheme == b"https" or (self.body is not None and not self.body.is_eof()):
            return False
        self._is_half_closed = True
        if self._exchange is not None:
            self._judge_half_close()
        else:
            # Either a request is on its way to its handler, or the end came before the first wait for one,
            # as it does with uvloop where a probe connects and closes.
            self._loop.call_soon(self._close_if_idle)
        return True

    def _close_if_idle(self) -> None:
        if self.is_idle:
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)
        self._server.lost(self)
        if self._exchange is not None:
            self._exchange.left()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._exchange is not None:
            self._exchange.drained()

    # a client that ended its own direction

    def _judge_half_close(self) -> None:
        exchange, transport = self._exchange, self.transport
        if exchange is None or transport is None or not exchange.is_open:
            return
        if exchange.probe is None or not exchange.has_started:
            transport.abort()
            return
        exchange.write(exchange.probe)
        self._look_again(0)

    def _look_again(self, looks: int) -> None:
        wait = _LOOKS_S[min(looks, len(_LOOKS_S) - 1)]
        self._look = self._loop.call_later(wait, self._look_at_peer, looks + 1)

    def _look_at_peer(self, looks: int) -> None:
        if self.transport is None or self._exchange is None:
            return
        if is_peer_reading(self.transport):
            self._look_again(looks)
        else:
            self.transport.abort()

    # errors

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer bytes that are no request; break the connection of a handler that failed.

        Neither the answer nor the log repeats what the client sent.
        """
        if not isinstance(exc, HttpProcessingError):
            if not isinstance(exc, ConnectionAbortedError):  # the client left inside its body
                _log.error("handler failed", exc_info=exc)
            self.break_off()
            raise ConnectionAbortedError
        is_large = isinstance(exc, LineTooLong) or exc.message.startswith(_TOO_MANY_HEADERS)
        answer = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if is_large else HTTPStatus.BAD_REQUEST
        self._server.on_refused(answer)
        return cast(web.StreamResponse, self.refuse(answer))

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log that a connection failed, without what aiohttp puts into its messages."""
        failure = kw.get("exc_info")
        _log.error("client connection failed: %s", type(failure).__name__)

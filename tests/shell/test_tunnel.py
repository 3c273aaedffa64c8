"""Connections through an HTTP proxy: what it is asked, and what becomes of its answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog

from epochgate.core.events import LegEnd
from epochgate.shell.connection import UpstreamLimits
from epochgate.shell.origin import Origin
from epochgate.shell.tls import Tls, TlsFiles, client_context
from epochgate.shell.tunnel import NoTunnel, Tunnel, tunnel_for
from epochgate.shell.upstream import Upstream
from tests.shell.wire import Heard, Peer, Upstreams, call, on_each_loop, serving, until
from tests.support.certificates import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Forwarder:
    """A proxy that connects to a port, or answers what it is told to."""

    to: int = 0
    answer: bytes = b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n"
    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)
        await writer.drain()
        if self.to and b" 200 " in self.answer:
            onward_reader, onward = await asyncio.open_connection("127.0.0.1", self.to)
            await asyncio.gather(_copy(reader, onward), _copy(onward_reader, writer))
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def forwarding(**how: object) -> AsyncIterator[Forwarder]:
    forwarder = Forwarder(**how)  # type: ignore[arg-type]  # its own fields
    server = await asyncio.start_server(forwarder.serve, "127.0.0.1", 0)
    forwarder.port = server.sockets[0].getsockname()[1]
    try:
        yield forwarder
    finally:
        server.close()
        await asyncio.gather(*forwarder.serving)


async def _echo(upstreams: Upstreams, peer: Peer) -> None:
    while True:
        await upstreams.take(peer)
        await peer.send(OK)


@on_each_loop
async def test_the_request_itself_goes_through_as_if_there_were_no_proxy() -> None:
    async with serving(_echo) as server, forwarding(to=server.port) as forwarder:
        tunnel = Tunnel.from_url(f"http://user:p%40ss@127.0.0.1:{forwarder.port}")
        upstream = Upstream(Origin.from_url("http://mcp.invalid:81/base"), tunnel=tunnel)
        heard = Heard()
        upstream.send(call(), heard)

        assert await heard.wait_end() == (LegEnd.CLEAN, "")
        assert heard.body == b"ok"
        assert forwarder.heads == [
            b"CONNECT mcp.invalid:81 HTTP/1.1\r\nHost: mcp.invalid:81\r\n"
            b"Proxy-Authorization: Basic dXNlcjpwQHNz\r\n\r\n"
        ]
        assert server.requests[0].startswith(b"POST /base/mcp HTTP/1.1\r\nHost: mcp.invalid:81\r\n")
        assert b"Proxy-" not in server.requests[0]
        await upstream.close()


@on_each_loop
async def test_a_server_behind_a_proxy_is_known_by_its_certificate() -> None:
    """The proxy, which sees bytes only, is not; a name that stands on no certificate is refused."""
    with TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        files = authority.issue("mcp.test")
        tls = Tls(
            client_context, TlsFiles(authorities=files.authority), structlog.get_logger(), lambda _: None
        )
        listening = await asyncio.start_server(_say_ok, "127.0.0.1", 0, ssl=authority.server_context(files))
        port = listening.sockets[0].getsockname()[1]
        ends = []
        async with forwarding(to=port) as forwarder:
            tunnel = Tunnel.from_url(f"http://127.0.0.1:{forwarder.port}")
            for name in ("mcp.test", "other.test"):
                upstream = Upstream(Origin.from_url(f"https://{name}"), tls=tls, tunnel=tunnel)
                heard = Heard()
                upstream.send(call(), heard)
                ends.append(await heard.wait_end())
                await upstream.close()
        listening.close()

    assert ends == [(LegEnd.CLEAN, ""), (LegEnd.NOT_SENT, "connect")]
    assert forwarder.heads[0].startswith(b"CONNECT mcp.test:443 HTTP/1.1\r\n")


async def _say_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        await reader.read()
    writer.close()


@on_each_loop
async def test_a_proxy_that_never_answers_is_waited_for_as_long_as_for_a_server() -> None:
    async with serving(_silent) as proxy:
        tunnel = Tunnel.from_url(f"http://127.0.0.1:{proxy.port}")
        upstream = Upstream(Origin.from_url("http://mcp.test"), UpstreamLimits(connect_s=0.05), tunnel=tunnel)
        heard = Heard()
        upstream.send(call(), heard)

        assert await heard.wait_end() == (LegEnd.NOT_SENT, "connect")
        await until(lambda: not proxy.playing)  # its connection is closed


async def _silent(upstreams: Upstreams, peer: Peer) -> None:
    await peer.wait_gone()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "with '407 Proxy Authentication Required'"),
        (b"HTTP/1.1 403 No\r\nContent-Length: 13\r\n\r\n<html>\r\n\r\n..", "with '403 No'"),
        (b"HTTP/1.1 200 OK\r\n\r\nearly", "sent more than an answer to CONNECT"),
        (b"SSH-2.0-x\r\n\r\n", "with 'SSH-2.0-x'"),
        (b"HTTP/1.1 200 OK\r\n", "gave no answer to CONNECT"),
        (b"x" * 20_000, "gave no answer to CONNECT"),
    ],
)
async def test_a_proxy_that_does_not_connect_is_named_with_what_it_said(answer: bytes, said: str) -> None:
    async with forwarding(answer=answer) as forwarder:
        upstream = Upstream(
            Origin.from_url("http://mcp.invalid"),
            tunnel=Tunnel.from_url(f"http://127.0.0.1:{forwarder.port}"),
        )
        with pytest.raises(NoTunnel) as told:
            await upstream.probe()
        assert str(told.value).startswith(f"the proxy 127.0.0.1:{forwarder.port} ")
        assert said in str(told.value)
        heard = Heard()
        upstream.send(call(), heard)
        assert await heard.wait_end() == (LegEnd.NOT_SENT, "connect")
        await upstream.close()


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({"HTTPS_PROXY": "http://p:1"}, "https://mcp.test", "p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http://mcp.test", None),
        ({"http_proxy": "p:3128"}, "http://mcp.test", "p:3128"),
        ({"ALL_PROXY": "http://p"}, "https://mcp.test", "p"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "localhost,.test"}, "https://mcp.test", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "mcp.test:8443"}, "https://mcp.test:8443", None),
        ({"http_proxy": "p:1", "NO_PROXY": "localhost, 10.0.0.0/8"}, "http://10.1.2.3:8000", None),
        ({"http_proxy": "p:1", "NO_PROXY": "10.0.0.0/8,fd00::/8"}, "http://11.1.2.3:8000", "p:1"),
        ({"http_proxy": "p:1", "NO_PROXY": "10.0.0.0/8,fd00::/8"}, "http://[fd00::7]", None),
        ({"http_proxy": "p:1", "NO_PROXY": "[::1]"}, "http://[::1]:8000", None),
        ({"http_proxy": "p:1", "NO_PROXY": "*"}, "http://mcp.test", None),
        ({}, "https://mcp.test", None),
    ],
)
def test_the_environment_says_which_proxy_if_it_is_asked(
    variables: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    origin = Origin.from_url(url)

    found = tunnel_for(origin, "environment")

    assert (None if found is None else found.proxy.authority.decode()) == proxy
    assert tunnel_for(origin, "off") is None


@pytest.mark.parametrize(
    "url",
    [
        "socks5://user:secret@p:1",
        "http://user:se/cret@p:1",
        "http://user:se#cret@p:1",
        "http://user:secret@p:x",
        "http://user:secret@exa\u2100mple:80",
        "http://user:secret@",
        "http://user:secret@[::1",
    ],
)
def test_a_variable_that_names_no_http_proxy_is_said_without_its_password(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", url)
    with pytest.raises(ValueError, match="https_proxy of the environment: not the URL of an HTTP") as told:
        tunnel_for(Origin.from_url("https://mcp.test"), "environment")
    assert "se" not in str(told.value)

"""The probes and the metrics page over real sockets, and readiness against a server that comes and goes."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import structlog
from structlog.testing import CapturedCall, CapturingLogger

from epochgate.observe.metrics import Metrics
from epochgate.shell.admin import AdminListener, administration, probes
from epochgate.shell.origin import Origin
from epochgate.shell.readiness import Readiness, Ready
from epochgate.shell.upstream import Upstream
from epochgate.units import Address, UnixPath

DEADLINE_S = 10.0
LOOPBACK = Address("127.0.0.1", 0)


async def _until(holds: Callable[[], bool]) -> None:
    """Return when `holds` does; raises TimeoutError at the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110  # readiness is asked, it sets no event
            await asyncio.sleep(0.005)


def _said(lines: list[CapturedCall]) -> list[str]:
    return [str(line.kwargs["event"]) for line in lines]


async def _server(port: int = 0) -> tuple[asyncio.Server, int]:
    """A server that accepts and closes: all that a probe asks for."""

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", port)
    return server, server.sockets[0].getsockname()[1]


@asynccontextmanager
async def _readiness(port: int, grace_s: float) -> AsyncIterator[tuple[Readiness, list[CapturedCall]]]:
    """A readiness that watches, and the lines it says."""
    capturing = CapturingLogger()
    log = structlog.wrap_logger(
        capturing, processors=[], wrapper_class=structlog.make_filtering_bound_logger("info")
    )
    upstream = Upstream(Origin.from_url(f"http://127.0.0.1:{port}"))
    readiness = Readiness((upstream,), grace_s, log)
    watching = asyncio.create_task(readiness.watch())
    try:
        yield readiness, capturing.calls
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await upstream.close()


@asynccontextmanager
async def _listener(readiness: Readiness, metrics: Metrics | None = None) -> AsyncIterator[Address]:
    listener = AdminListener((LOOPBACK,), probes(metrics or Metrics(), readiness))
    try:
        (place,) = await listener.start()
        assert isinstance(place, Address)
        yield place
    finally:
        await listener.close()


async def _get(
    address: Address, path: str, *headers: str, host: str = "localhost", version: str = "1.1"
) -> tuple[int, str, bytes]:
    """Status, head and body of a GET, as they stand on the wire."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    lines = [f"GET {path} HTTP/{version}", f"Host: {host}", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(DEADLINE_S):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), head.decode(), body


def _unprobed() -> Readiness:
    return Readiness((), 60, structlog.get_logger())


async def test_liveness_and_startup_do_not_depend_on_the_server() -> None:
    async with _listener(_unprobed()) as address:
        assert await _get(address, "/livez") == await _get(address, "/startupz")
        status, _, body = await _get(address, "/livez")
        assert (status, body) == (200, b"ok\n")


async def test_readiness_tells_why_not() -> None:
    readiness = _unprobed()
    async with _listener(readiness) as address:
        status, _, body = await _get(address, "/readyz")
        assert (status, body) == (503, b"not ready: the server has not been reached\n")
        readiness.begin_drain()
        assert (await _get(address, "/readyz"))[2] == b"not ready: draining\n"


async def test_a_server_s_short_absence_is_not_held_against_the_proxy() -> None:
    server, port = await _server()
    async with _readiness(port, grace_s=0.6) as (readiness, lines):
        await _until(lambda: readiness.now() is Ready.YES)
        server.close()
        await server.wait_closed()
        await _until(lambda: _said(lines)[-1] == "server not reached")
        assert readiness.now() is Ready.YES
        await _until(lambda: readiness.now() is Ready.LOST)

        server, _ = await _server(port)
        await _until(lambda: readiness.now() is Ready.YES)
        assert _said(lines) == ["server reached", "server not reached", "server reached"]
        server.close()


async def test_a_drain_wins_over_a_server_that_is_there() -> None:
    server, port = await _server()
    async with _readiness(port, grace_s=60) as (readiness, _):
        await _until(lambda: readiness.now() is Ready.YES)
        readiness.begin_drain()
        assert readiness.now() is Ready.DRAINING
    server.close()


async def test_the_metrics_say_at_each_scrape_whether_it_is_ready() -> None:
    server, port = await _server()
    async with _readiness(port, grace_s=60) as (readiness, _), _listener(readiness) as address:
        await _until(lambda: readiness.now() is Ready.YES)
        assert b"\nepochgate_ready 1.0\n" in (await _get(address, "/metrics"))[2]
        readiness.begin_drain()
        assert b"\nepochgate_ready 0.0\n" in (await _get(address, "/metrics"))[2]
    server.close()


async def test_metrics_are_served_plain_and_compressed() -> None:
    metrics = Metrics()
    metrics.counter("relayed_events").inc(7)
    async with _listener(_unprobed(), metrics) as address:
        status, head, body = await _get(address, "/metrics")
        assert status == 200
        assert "Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
        assert b"\nepochgate_relayed_events_total 7.0\n" in body
        _, head, packed = await _get(address, "/metrics", "Accept-Encoding: gzip")
        assert "Content-Encoding: gzip" in head
        assert b"\nepochgate_relayed_events_total 7.0\n" in gzip.decompress(packed)


async def test_a_page_in_a_browser_cannot_read_it_under_a_name_of_its_own() -> None:
    async with _listener(_unprobed()) as address:
        assert (await _get(address, "/metrics", host="evil.example"))[0] == 403
        assert (await _get(address, "/livez", "Origin: https://evil.example"))[0] == 403
        assert (await _get(address, "/livez", host=f"127.0.0.1:{address.port}"))[0] == 200


async def test_an_address_in_use_is_an_os_error() -> None:
    async with _listener(_unprobed()) as address:
        second = AdminListener((address,), probes(Metrics(), _unprobed()))
        with pytest.raises(OSError, match="in use"):
            await second.start()
        await second.close()


async def _never() -> None:
    raise AssertionError


@asynccontextmanager
async def _administered(sessions: Callable[[], Iterator[dict[str, object]]]) -> AsyncIterator[Address]:
    listener = AdminListener((LOOPBACK,), administration(sessions, _never))
    (address,) = await listener.start()
    assert isinstance(address, Address)
    yield address
    await listener.close()


async def test_thousands_of_sessions_are_written_down_while_others_have_their_turn() -> None:
    turns: list[int] = []

    def rows() -> Iterator[dict[str, object]]:
        for number in range(2_000):
            turns.append(next(ticks))
            yield {"session": f"{number:08x}"}

    ticks = itertools.count()
    ticking = True

    def tick() -> None:
        next(ticks)
        if ticking:
            loop.call_soon(tick)

    loop = asyncio.get_running_loop()
    async with _administered(rows) as address:
        loop.call_soon(tick)
        status, head, body = await _get(address, "/sessions")
        ticking = False
    assert (status, "Content-Type: application/json" in head) == (200, True)
    others = [after - before - 1 for before, after in itertools.pairwise(turns)]
    assert sum(others) >= 2_000 // 100
    assert b'"000007cf"' in body


async def test_as_many_sessions_are_shown_as_are_asked_for() -> None:
    async with _administered(lambda: iter([{"session": "a"}, {"session": "b"}])) as address:
        wanted = {"": ["a", "b"], "?limit=1": ["a"], "?limit=0": [], "?limit=9": ["a", "b"]}
        for query, names in wanted.items():
            status, _, body = await _get(address, f"/sessions{query}", version="1.0")
            assert (status, json.loads(body)) == (200, {"sessions": [{"session": name} for name in names]})
        for bad in ("x", "-1", "1e3", "9" * 5_000, ""):
            status, _, body = await _get(address, f"/sessions?limit={bad}")
            assert (status, body) == (400, b"limit: not a number of sessions; give for example 100\n")


async def test_everything_but_the_probes_asks_for_the_token() -> None:
    routes = [*probes(Metrics(), _unprobed()), *administration(lambda: iter(()), _never)]
    listener = AdminListener((LOOPBACK,), routes, token="s3cret")
    (address,) = await listener.start()
    assert isinstance(address, Address)
    shown = {"Bearer s3cret": 200, "bearer  s3cret ": 200, "Bearer s3cre": 401, "s3cret": 401}
    for given, status in shown.items():
        head = f"Authorization: {given}"
        assert [(await _get(address, path, head))[0] for path in ("/sessions", "/metrics")] == [status] * 2
    assert (await _get(address, "/sessions"))[0] == 401
    assert [(await _get(address, path))[0] for path in ("/livez", "/startupz", "/readyz")] == [200, 200, 503]
    await listener.close()


async def test_a_connection_on_which_no_head_comes_in_time_is_closed() -> None:
    listener = AdminListener((LOOPBACK,), probes(Metrics(), _unprobed()), idle_s=0.05)
    (address,) = await listener.start()
    assert isinstance(address, Address)
    for sent in (b"", b"GET /livez HTTP/1.1\r\nX-A: "):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(sent)
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.read() == b""
        writer.close()
    await listener.close()


async def test_it_listens_in_several_places(tmp_path: Path) -> None:
    path = UnixPath(str(tmp_path / "admin.sock"))
    listener = AdminListener((LOOPBACK, Address("::1", 0), path), probes(Metrics(), _unprobed()))
    first, second, third = await listener.start()
    assert isinstance(first, Address)
    assert isinstance(second, Address)
    assert third == path
    assert (await _get(first, "/livez"))[0] == (await _get(second, "/livez"))[0] == 200
    reader, writer = await asyncio.open_unix_connection(path.path)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()
    await listener.close()
    assert os.listdir(tmp_path) == []

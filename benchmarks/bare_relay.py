"""The yardstick: a reverse proxy as aiohttp's documentation leads one to write it, with nothing of the guard.

`web.Application` on one side, `ClientSession` on the other, uvloop below; answers are streamed as they come.
Settings that a relay needs (no pool limit, no total timeout, no redirects, no cookies) are set, no others.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator

import aiohttp
import uvloop
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host"})
UPSTREAM = web.AppKey("UPSTREAM", str)
SESSION = web.AppKey("SESSION", aiohttp.ClientSession)


async def relay(request: web.Request) -> web.StreamResponse:
    """Send the request upstream and stream the answer back."""
    body = await request.read() if request.can_read_body else None
    url = URL(request.app[UPSTREAM] + request.raw_path, encoded=True)
    headers = CIMultiDict((k, v) for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP)
    exchange = request.app[SESSION].request(
        request.method, url, headers=headers, data=body, allow_redirects=False
    )
    async with exchange as answer:
        kept = CIMultiDict((k, v) for k, v in answer.headers.items() if k.lower() not in HOP_BY_HOP)
        response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=kept)
        await response.prepare(request)
        async for data in answer.content.iter_any():
            await response.write(data)
        await response.write_eof()
        return response


async def client_session(app: web.Application) -> AsyncIterator[None]:
    """Hold one ClientSession for the life of the application."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
    )
    app[SESSION] = session
    yield
    await session.close()


async def serve(listen: str, upstream: str) -> None:
    """Serve until the process is ended."""
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app[UPSTREAM] = upstream.rstrip("/")
    app.cleanup_ctx.append(client_session)
    app.router.add_route("*", "/{path:.*}", relay)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    host, port = listen.rsplit(":", 1)
    await web.TCPSite(runner, host, int(port), backlog=4096).start()
    await asyncio.Event().wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--upstream", required=True, metavar="URL")
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.listen, arguments.upstream))


if __name__ == "__main__":
    main()

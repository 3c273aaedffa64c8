"""A real Chromium with one page, which a test can steer: python browser.py CHROMIUM FOLDER PAGE

`FOLDER` holds `PAGE.html`; `serving` tells the origin under which the page is served, a name of elsewhere.
The first order, `open`, has the `server` that the page is to talk to; the others go to the page's `orders`.
What the page logs is on stdout, and `failed` for each request of it that did.
"""

from __future__ import annotations

import asyncio
import functools
import http.server
import json
import sys
import threading
from typing import Any

from playwright.async_api import Error, Page, async_playwright

NAME = "page.test"  # a foreign name that leads to this machine
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    f"--host-resolver-rules=MAP {NAME} 127.0.0.1",
)


def tell(event: str, **what: Any) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve(folder: str) -> int:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


async def order(page: Page, line: bytes) -> None:
    what = json.loads(line)
    try:
        await page.evaluate("what => window.orders[what.do](what)", what)
    except Error as error:
        tell("error", call=what.get("call", what["do"]), message=str(error))


async def main(chromium: str, folder: str, name: str) -> None:
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    origin = f"http://{NAME}:{serve(folder)}"
    tell("serving", origin=origin)
    server = json.loads(await orders.readline())["server"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = await browser.new_page()
        page.on("console", lambda message: print(message.text, flush=True))
        page.on("pageerror", lambda error: print(error, flush=True))
        page.on("requestfailed", lambda failed: tell("failed", method=failed.method, why=failed.failure))
        await page.goto(f"{origin}/{name}.html?{server}")
        running = set()
        while line := await orders.readline():
            task = asyncio.create_task(order(page, line))
            running.add(task)
            task.add_done_callback(running.discard)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

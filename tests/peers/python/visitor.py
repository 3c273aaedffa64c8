"""A real Chromium in the hands of a test, which does what a person would: visitor.py CHROMIUM [light|dark]

Orders, with `at` a CSS selector: `visit` (a `url`), `type` (`text` into `at`), `click` (`at`), `see` (wait
until `at` shows `text`; tells `seen` with all that it shows), `post` (send a form to `url` from a page of
`origin`; tells `answered` with the status). What a page logs, such as what its policy forbids, is `logged`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from playwright.async_api import Browser, Page, Route, async_playwright, expect

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
FORM = '<form method="post" action="{url}"><button>go</button></form>'


def tell(event: str, **what: Any) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


async def post(browser: Browser, url: str, origin: str) -> None:
    page = await browser.new_page()

    async def serve(route: Route) -> None:
        await route.fulfill(body=FORM.format(url=url), content_type="text/html")

    await page.route(f"{origin}/**", serve)
    await page.goto(f"{origin}/")
    async with page.expect_response(url) as answering:
        await page.click("button")
    tell("answered", status=(await answering.value).status)
    await page.close()


async def obey(page: Page, order: dict[str, Any]) -> None:
    match order["do"]:
        case "visit":
            await page.goto(order["url"])
        case "type":
            await page.fill(order["at"], order["text"])
        case "click":
            await page.click(order["at"])
        case "see":
            shown = page.locator(order["at"])
            await expect(shown).to_contain_text(order["text"], timeout=20_000)
            tell("seen", at=order["at"], text=await shown.inner_text())
        case "post":
            await post(page.context.browser, order["url"], order["origin"])
        case unknown:
            raise SystemExit(f"no such order: {unknown}")


async def main(chromium: str, colours: str = "light") -> None:
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = await browser.new_page(color_scheme=colours)
        page.on("console", lambda message: tell("logged", text=message.text))
        page.on("pageerror", lambda error: tell("logged", text=str(error)))
        tell("ready")
        while line := await orders.readline():
            await obey(page, json.loads(line))
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

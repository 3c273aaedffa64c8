"""The page for people in a real Chromium: its policy lets it work, and no other page can begin a drain."""

from __future__ import annotations

from pathlib import Path

from tests.interop.steered import Steered
from tests.interop.surroundings import Surroundings

CONFIRM = "#confirming button[value=drain]"


async def _look(person: Steered, at: str, text: str) -> str:
    """What an element shows, once `text` is among it."""
    await person.order("see", at=at, text=text)
    seen = await person.wait_told("seen", at=at, times=len(person.told("seen", at=at)) + 1)
    return str(seen["text"])


async def test_it_shows_the_state_and_drains_when_that_is_confirmed(around: Surroundings) -> None:
    server, upstream = await around.server("python-1.30")
    proxy = await around.proxy(upstream, "--drain-delay", "0s", "--drain", "5s")
    client = await around.client("python-1.30", proxy.port)
    await client.order("initialize")
    await client.wait_told("initialized")
    person = await around.visitor()

    await person.order("visit", url=f"http://127.0.0.1:{proxy.admin}/")
    assert await _look(person, "#ready", "ready") == "ready"
    assert await _look(person, "#servers", "127") == f"127.0.0.1:{upstream}\treached\t1 sessions"
    assert "live" in await _look(person, "#sessions", "standalone: server open, client attached")
    await server.kill()  # its return brings the session back, and that is told without another visit
    await around.server("python-1.30", port=upstream)
    assert "healed 1" in await _look(person, "#counters", "healed 1")

    await person.order("click", at="#drain")
    assert "get 5 s, then an error" in await _look(person, "#confirming", "Drain this process?")
    await person.order("click", at="#confirming button[value='']")
    await person.order("click", at="#drain")
    assert proxy.process.told("draining") == []
    await person.order("click", at=CONFIRM)
    await _look(person, "#ready", "not ready: draining")
    await proxy.process.wait_told("drained")
    assert person.told("logged") == []
    assert await proxy.process.stop() == 0


async def test_it_asks_for_the_token_where_one_is_set(around: Surroundings, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret")
    _, upstream = await around.server("python-1.30")
    proxy = await around.proxy(upstream, "--admin-token-file", str(file))
    person = await around.visitor("dark")

    await person.order("visit", url=f"http://127.0.0.1:{proxy.admin}/")
    await _look(person, "#asking", "Token of the admin listener")
    await person.order("type", at="#token", text="other")
    await person.order("click", at="#asking button")
    await _look(person, "#trouble", "This token is not accepted.")
    await person.order("type", at="#token", text="s3cret")
    await person.order("click", at="#asking button")
    assert f"127.0.0.1:{upstream}" in await _look(person, "#servers", "reached")
    await person.order("click", at="#drain")
    await person.order("click", at=CONFIRM)
    await _look(person, "#ready", "not ready: draining")


async def test_a_page_of_elsewhere_cannot_make_it_drain(around: Surroundings) -> None:
    """Neither one of the web nor one of another program on this machine."""
    _, upstream = await around.server("python-1.30")
    proxy = await around.proxy(upstream)
    person = await around.visitor()

    for times, origin in enumerate(("http://evil.test", "http://localhost:3000"), 1):
        await person.order("post", url=f"http://127.0.0.1:{proxy.admin}/drain", origin=origin)
        await person.wait_told("answered", status=403, times=times)
    assert proxy.process.told("draining") == []

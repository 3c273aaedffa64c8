"""Going away (W10): readiness first, owed answers to the drain limit, then errors, and exit 0."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.shell.running import drained, running_proxy
from tests.support.client import PRIMED, Answer, Client, Truncated, initialize, outcome
from tests.support.server import Epochs, Leg, McpServer, serving


class Calls:
    """Calls that are open at the proxy, and the server that lets them finish."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def play(self, leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await self.release.wait()
        await leg.answer()
        await leg.end()


async def stand(leg: Leg) -> None:
    await leg.open()
    await leg.log("here")
    await leg.peer.wait_gone()


async def open_calls(client: Client, count: int) -> list[Answer]:
    await client.open()
    answers = [await client.call() for _ in range(count)]
    for answer in answers:
        await answer.next_message()
    return answers


async def status_of(port: int, target: str) -> int:
    async with Client(port) as probe:
        return (await probe.send("GET", target, [])).status


async def until_status(port: int, target: str, wanted: int) -> None:
    while await status_of(port, target) != wanted:
        pass


async def test_a_drain_gives_owed_answers_and_ends_idle_streams() -> None:
    """In this order (W10)."""
    calls = Calls()
    server = McpServer(calls.play)
    server.stand = stand
    async with serving(server), running_proxy(server.port, "--drain-delay", "1s") as proxy:
        async with Client(proxy.port) as client:
            answers = await open_calls(client, 5)
            idle = await client.get()
            await idle.next_message()
            await until_status(proxy.health, "/readyz", 200)
            proxy.process.send_signal(signal.SIGTERM)
            await until_status(proxy.health, "/readyz", 503)
            assert await status_of(proxy.health, "/livez") == 200
            assert await idle.next_event() is None  # the final chunk, not a cut
            calls.release.set()
            told = [outcome(await answer.messages()) for answer in answers]
        assert sorted(map(str, told)) == [f"run {number} done" for number in range(1, 6)]
        assert await proxy.wait() == 0


async def test_a_drain_that_takes_too_long_ends_in_errors_and_exit_0() -> None:
    calls = Calls()
    server = McpServer(calls.play)
    async with serving(server), running_proxy(server.port, "--drain", "0.5s") as proxy:
        async with Client(proxy.port, version=PRIMED) as client:
            answers = await open_calls(client, 3)
            proxy.process.send_signal(signal.SIGTERM)
            assert [outcome(await answer.messages()) for answer in answers] == [-32050] * 3
        assert await proxy.wait() == 0


async def test_a_drain_answers_a_call_whose_server_breaks_meanwhile() -> None:
    """No heal is begun while the process goes away; the call is not left hanging either."""
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await go_on.wait()
        await leg.cut()

    server = McpServer(play, epochs=Epochs.NEVER)
    async with serving(server), running_proxy(server.port) as proxy, Client(proxy.port) as client:
        answers = await open_calls(client, 1)
        proxy.process.send_signal(signal.SIGTERM)
        await _until_closed(proxy.port)
        go_on.set()
        assert outcome(await answers[0].messages()) in (-32050, -32051)
        assert await proxy.wait() == 0
        assert server.executions == 1


async def test_a_server_that_breaks_while_connections_are_still_taken_is_not_healed_either() -> None:
    """It is in reach again at once, so that a heal would succeed: but it may be going away as well."""
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await go_on.wait()
        await leg.cut()

    server = McpServer(play, epochs=Epochs.NEVER)
    server.stand = stand
    async with serving(server), running_proxy(server.port, "--drain-delay", "5s") as proxy:
        async with Client(proxy.port) as client:
            (answer,) = await open_calls(client, 1)
            idle = await client.get()
            await idle.next_message()
            proxy.process.send_signal(signal.SIGTERM)
            await until_status(proxy.health, "/readyz", 503)
            go_on.set()
            assert outcome(await answer.messages()) in (-32050, -32051)
            assert (server.counts["initialize"], server.executions) == (1, 1)
            assert await idle.next_event() is None  # when nothing listens any more
        assert await proxy.wait() == 0


@pytest.mark.parametrize("comes_late", [False, True])
async def test_an_initialize_that_the_server_does_not_answer_is_told_at_the_end(comes_late: bool) -> None:
    """Also one that comes while connections are still taken."""
    server = McpServer()
    server.delay_initialize = asyncio.Event()
    delay = ("--drain-delay", "2s") if comes_late else ()
    async with serving(server), running_proxy(server.port, "--drain", "2s", *delay) as proxy:
        async with Client(proxy.port) as client:
            if comes_late:
                proxy.process.send_signal(signal.SIGTERM)
                await until_status(proxy.health, "/readyz", 503)
            asked = asyncio.create_task(client.post(initialize()))
            await server.until(lambda: server.counts["initialize"] == 1)
            if not comes_late:
                proxy.process.send_signal(signal.SIGTERM)
            error = (await (await asked).json())["error"]
        assert (error["code"], error["data"]["reason"]) == (-32051, "draining")
        assert await proxy.wait() == 0


async def test_once_drained_nothing_of_the_server_is_held_any_more() -> None:
    """A server that waits for its connections to end could not go away before the proxy does."""
    gone = asyncio.Event()

    async def play(leg: Leg) -> None:
        await stand(leg)
        gone.set()

    server = McpServer()
    server.stand = play
    async with serving(server), running_proxy(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            await (await client.get()).next_message()
        assert await drained(f"127.0.0.1:{proxy.admin}") == (0, "")
        await server.until(gone.is_set)
        assert proxy.process.returncode is None
        assert await proxy.stop() == 0


async def _until_closed(port: int) -> None:
    while True:
        try:
            await status_of(port, "/")
        except ConnectionRefusedError:
            return
        except (ConnectionResetError, Truncated):
            pass  # it was in the queue of the listener that closed, or on a connection that did


async def test_a_second_signal_ends_at_once_and_cuts_what_is_open() -> None:
    """The process must go: an abort, never an end that looks whole (W8)."""
    calls = Calls()
    server = McpServer(calls.play)
    async with serving(server), running_proxy(server.port) as proxy, Client(proxy.port) as client:
        (answer,) = await open_calls(client, 1)
        proxy.process.send_signal(signal.SIGTERM)
        await _until_closed(proxy.port)
        proxy.process.send_signal(signal.SIGTERM)
        with pytest.raises(Truncated):  # never an end that looks whole (W8)
            await answer.messages()
        assert await proxy.wait() == 1


async def test_a_pod_goes_away_in_the_order_of_its_sidecars() -> None:
    """KEP-753: the hooks of all containers, then the server exits, then SIGTERM for the sidecar."""
    calls = Calls()
    server = McpServer(calls.play)
    async with serving(server), running_proxy(server.port) as proxy:
        async with Client(proxy.port) as client:
            (answer,) = await open_calls(client, 1)
            hook = asyncio.create_task(drained(f"127.0.0.1:{proxy.admin}"))
            await until_status(proxy.health, "/readyz", 503)
            await _until_closed(proxy.port)
            assert not hook.done()  # the answer is owed still
            calls.release.set()
            assert outcome(await answer.messages()) == "run 1 done"
        assert await hook == (0, "")
        await server.stop()
        assert server.counts["DELETE"] == 0
        assert proxy.process.returncode is None
        assert await proxy.stop() == 0


async def test_a_second_hook_waits_for_the_same_drain() -> None:
    calls = Calls()
    server = McpServer(calls.play)
    async with serving(server), running_proxy(server.port) as proxy:
        async with Client(proxy.port) as client:
            (answer,) = await open_calls(client, 1)
            hooks = [asyncio.create_task(drained(f"127.0.0.1:{proxy.admin}")) for _ in range(2)]
            await _until_closed(proxy.port)
            calls.release.set()
            assert outcome(await answer.messages()) == "run 1 done"
        assert await asyncio.gather(*hooks) == [(0, "")] * 2
        assert proxy.process.returncode is None
        assert await proxy.stop() == 0

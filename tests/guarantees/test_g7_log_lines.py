"""G7 loud: what joins a log line with the client's log and the server's, and what must not stand in one."""

from __future__ import annotations

import json

import pytest

from tests.support.client import Client, Truncated, call, initialize
from tests.support.proxy import Proxy, guarding
from tests.support.server import Epochs, Leg, McpServer, serving, until


async def lines(proxy: Proxy, count: int) -> list[dict[str, object]]:
    """The lines of tool calls, once there are so many."""

    def found() -> list[dict[str, object]]:
        return [line for line in proxy.log("request") if line["method"] in ("tools/call", "batch")]

    await until(lambda: len(found()) == count)
    return found()


async def test_a_line_has_the_id_of_the_client_and_the_stamp_that_the_server_saw() -> None:
    async with serving(McpServer()) as server, guarding(server.port, access_log="all") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            for number in (7, "seven"):
                await (await client.call(number)).messages()
        first, second = await lines(proxy, 2)
        assert (first["ids"], first["stamps"]) == (["7"], [str(server.runs[0].id)])
        assert (second["ids"], second["stamps"]) == (["seven"], [str(server.runs[1].id)])
        others = [line for line in proxy.log("request") if line["traffic"] == "plain"]
        assert all("ids" not in line for line in others)


async def test_a_request_that_was_sent_again_has_both_stamps() -> None:
    """A line of its own where there is something to tell, as by default."""

    async def breaks_once(leg: Leg) -> None:
        await leg.open()
        if leg.run.number == 1:
            await leg.cut()
        await leg.answer()
        await leg.end()

    server = McpServer(breaks_once, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        await (await client.call()).messages()
        (line,) = await lines(proxy, 1)
        assert (line["ids"], line["stamps"]) == (["7"], [str(run.id) for run in server.runs])
        assert len(server.runs) == 2


async def test_a_line_says_why_the_server_failed() -> None:
    server = McpServer()
    soon = {"resume_deadline": "0.1s", "resume_headers": "0.1s", "heal_deadline": "0.1s"}
    async with serving(server), guarding(server.port, **soon) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            await server.stop()
            await (await client.call()).messages()
            with pytest.raises(Truncated):
                await client.send("GET", "/elsewhere", [])
        await until(lambda: any(line["session"] == "" for line in proxy.log("upstream failed")))
        assert {line["reason"] for line in proxy.log("upstream failed")} == {"connection refused"}


async def test_ids_of_any_size_and_content_make_short_lines() -> None:
    odd = ["x" * 5000, "\x1b[31m\n\u202e\x9b", 10**40]
    async with serving(McpServer()) as server, guarding(server.port, access_log="all") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            for number in odd:
                answer = await client.post(call(number))
                await answer.read()
            many = [call(number) for number in range(50)]
            await (await client.post(json.dumps(many).encode())).read()
        await lines(proxy, 4)
        written = [line for line in proxy.lines if '"event": "request"' in line]
        assert len(written) >= 6
        for line in written:
            assert len(line) < 2000
            assert line.isascii()
            assert line.isprintable()


ODD_IDS = {
    "a path": "../../etc/passwd",
    "a file URL": "file:///etc/passwd%00",
    "5 KB": "x" * 5120,
    "UTF-8": "séssion-\u202e-\u2028-\x9b",
    "markup": "</script><b>&",
    "labels": 'a",state="live"} 1',
    "spaces and a tab": "a \t b",
}


@pytest.mark.parametrize("name", ODD_IDS)
async def test_a_session_id_stands_in_no_log_line_and_no_metric(name: str) -> None:
    """Whatever it is made of, its hash stands for it; the session is guarded like any other."""
    odd = ODD_IDS[name]
    server = McpServer()
    server.make_id = lambda: odd
    async with (
        serving(server),
        guarding(server.port, access_log="all") as proxy,
        Client(proxy.port) as client,
    ):
        opened = await client.post(initialize())
        assert f"\r\nmcp-session-id: {odd}\r\n".encode() in opened.head.lower()
        client.session = odd
        # The session is known: a cursor that it never gave is a 400, of an unknown session a 404.
        assert (await client.get("1")).status == 400
        hashes = {line["session"] for line in proxy.log("request")} - {""}
        assert len(hashes) == 1
        assert all(len(one) == 8 for one in hashes)
        said = "\n".join(proxy.lines) + "\n".join(await proxy.page())
        assert odd not in said
        assert json.dumps(odd)[1:-1] not in said
        assert said.replace("\n", "").isprintable()


@pytest.mark.parametrize("odd", ["a\x00b", "a\x1bb", "a\x7fb", "a\rb"])
async def test_a_session_id_with_control_bytes_is_refused_and_never_logged(odd: str) -> None:
    server = McpServer()
    async with serving(server), guarding(server.port, access_log="all") as proxy:
        async with Client(proxy.port) as client:
            client.session = odd
            assert (await client.call()).status == 400
            assert server.requests == []
        server.make_id = lambda: odd
        async with Client(proxy.port) as client:
            await (await client.post(initialize())).read()  # the server's own answer, or an error
        said = "\n".join(proxy.lines) + "\n".join(await proxy.page())
        assert odd not in said
        assert json.dumps(odd)[1:-1] not in said

"""Questions that servers ask inside a tool call, and cancels, between real SDKs on both sides of the proxy.

The Python SDK's client reads nothing while it is asked; the TypeScript SDK's does.
"""

from __future__ import annotations

import json

import pytest

from tests.interop.stage import ASKING_KINDS, Proxy, Stage
from tests.interop.steered import Line, Steered

MARK = "dev.epochgate/restart"
OUTCOME_UNKNOWN = -32050
PAIRS = [("python-1.30", "python-1.30"), ("typescript-sdk", "typescript"), ("python-1.30", "typescript")]

of_pairs = pytest.mark.parametrize(("server_kind", "client_kind"), PAIRS)
of_servers = pytest.mark.parametrize("server_kind", ASKING_KINDS)


async def _server(stage: Stage, kind: str, *flags: str, port: int = 0) -> tuple[Steered, int]:
    return await stage.server(kind, *flags, *(["--asking"] if kind == "python-1.30" else []), port=port)


async def _session(stage: Stage, kind: str, port: int) -> Steered:
    client = await stage.client(kind, port)
    await client.order("initialize")
    await client.wait_told("initialized", server="peer", revision="2025-11-25")
    return client


async def _ask(client: Steered, kind: str, call: str = "asker", waits: str = "no") -> None:
    """Call the tool that asks."""
    arguments = {"kind": kind, "label": call, "waits": waits}
    await client.order("call", call=call, tool="ask", arguments=arguments)


def _answer(line: Line) -> object:
    """What the tool was answered, as its result tells."""
    return json.loads(line["text"])["answer"]


def _executions(call: str, *servers: Steered) -> list[str]:
    return [line["run"] for server in servers for line in server.told("execution", label=call)]


async def _wait_executed(server: Steered, call: str, times: int) -> None:
    await server.wait_told("execution", label=call, times=times)


@of_pairs
async def test_every_question_is_answered(stage: Stage, server_kind: str, client_kind: str) -> None:
    server, upstream = await _server(stage, server_kind)
    proxy = await stage.proxy(upstream)
    client = await _session(stage, client_kind, proxy.port)

    for number, kind in enumerate(("sampling", "elicitation", "roots"), 1):
        await _ask(client, kind, kind)
        await client.wait_told("asked", number=number, kind=kind)
        await client.order("answer", number=number, text=f"to {kind}")
        result = await client.wait_result(kind)
        assert (_answer(result), result["meta"]) == (f"to {kind}", {})
    await client.order(
        "call", call="ping", tool="ask", arguments={"kind": "ping", "label": "p", "waits": "no"}
    )
    assert _answer(await client.wait_result("ping")) == "pong"
    assert len(server.told("execution")) == 4


@of_pairs
@pytest.mark.parametrize("kind", ["sampling", "elicitation"])
async def test_the_client_leg_is_cut_while_the_question_is_open(
    stage: Stage, server_kind: str, client_kind: str, kind: str
) -> None:
    server, upstream = await _server(stage, server_kind)
    proxy = await stage.proxy(upstream)
    cutter = await stage.cutter(proxy.port)
    client = await _session(stage, client_kind, cutter.port)
    await _ask(client, kind)
    await client.wait_told("asked", number=1)

    assert cutter.cut(b'"asker"') == 1
    await client.order("answer", number=1, text="yes")
    result = await client.wait_result("asker")

    assert (_answer(result), result["meta"]) == ("yes", {})
    assert len(client.told("asked")) == 1
    assert len(_executions("asker", server)) == 1


@of_pairs
async def test_a_question_asked_while_the_client_was_away(
    stage: Stage, server_kind: str, client_kind: str
) -> None:
    server, upstream = await _server(stage, server_kind)
    proxy = await stage.proxy(upstream)
    cutter = await stage.cutter(proxy.port)
    client = await _session(stage, client_kind, cutter.port)
    await _ask(client, "elicitation", waits="before")
    await client.wait_told("progress", call="asker")

    with cutter.holding_resumes():
        assert cutter.cut(b'"asker"') == 1
        await server.order("release", label="asker")
    await client.wait_told("asked", number=1)
    await client.order("answer", number=1, text="yes")

    assert _answer(await client.wait_result("asker")) == "yes"
    assert len(client.told("asked")) == 1
    assert len(_executions("asker", server)) == 1


@of_pairs
@pytest.mark.parametrize("kind", ["sampling", "elicitation"])
async def test_a_heal_for_another_call_leaves_the_question_alone(
    stage: Stage, server_kind: str, client_kind: str, kind: str
) -> None:
    """R18: the stream of the call that asks never broke, so its session lives on beside the new one."""
    server, upstream = await _server(stage, server_kind)
    cutter = await stage.cutter(upstream)
    proxy = await stage.proxy(cutter.port)
    client = await _session(stage, client_kind, proxy.port)
    other = {"steps": 3, "hold_at": 1, "label": "other"}
    await client.order("call", call="other", tool="count", arguments=other)
    await client.wait_told("progress", call="other", progress=1)
    await _ask(client, kind)
    await client.wait_told("asked", number=1)

    assert cutter.cut(b'"other"') == 1
    await _wait_executed(server, "other", times=2)
    await client.order("answer", number=1, text="yes")
    asked = await client.wait_result("asker")
    await server.order("release", label="other")
    counted = await client.wait_result("other")

    assert _answer(asked) == "yes"
    assert json.loads(counted["text"])["run"] == _executions("other", server)[1]
    assert MARK in counted["meta"]
    assert len(_executions("asker", server)) == 1
    assert len(server.told("received", method="initialize")) == 2


@of_pairs
@pytest.mark.parametrize("kind", ["sampling", "elicitation"])
async def test_the_server_restarts_while_the_question_is_open(
    stage: Stage, server_kind: str, client_kind: str, kind: str
) -> None:
    """The call runs again and asks again. The late answer is taken, and reaches nobody."""
    old, upstream = await _server(stage, server_kind)
    proxy = await stage.proxy(upstream)
    client = await _session(stage, client_kind, proxy.port)
    await _ask(client, kind)
    await client.wait_told("asked", number=1)

    await old.kill()
    new, _ = await _server(stage, server_kind, port=upstream)
    await _wait_executed(new, "asker", times=1)
    await client.order("answer", number=1, text="late")
    await client.wait_told("asked", number=2)
    await client.order("answer", number=2, text="fresh")
    result = await client.wait_result("asker")

    assert _answer(result) == "fresh"
    assert [line["answer"] for line in new.told("answered")] == ["fresh"]
    assert MARK in result["meta"]
    assert len(_executions("asker", old)) == len(_executions("asker", new)) == 1
    assert len(new.told("received", method="response")) == 1
    assert proxy.moved("epochgate_dropped_messages_total") == {'reason="stale_answer"': 1}
    assert _statuses_of_answers(proxy) == {'class="session",method="response",status="202"': 2}


def _statuses_of_answers(proxy: Proxy) -> dict[str, float]:
    moved = proxy.moved("epochgate_requests_total")
    return {labels: count for labels, count in moved.items() if 'method="response"' in labels}


@of_pairs
async def test_a_call_that_asked_and_may_not_run_twice(
    stage: Stage, server_kind: str, client_kind: str
) -> None:
    old, upstream = await _server(stage, server_kind)
    proxy = await stage.proxy(upstream, "--reissue", "never")
    client = await _session(stage, client_kind, proxy.port)
    await _ask(client, "elicitation")
    await client.wait_told("asked", number=1)

    await old.kill()
    new, _ = await _server(stage, server_kind, port=upstream)
    await client.order("answer", number=1, text="late")
    error = await client.wait_told("error", call="asker")

    assert error["code"] == OUTCOME_UNKNOWN
    await _ask(client, "elicitation", "next")
    await client.wait_told("asked", number=2)
    await client.order("answer", number=2, text="fresh")
    assert _answer(await client.wait_result("next")) == "fresh"
    assert [line["answer"] for line in new.told("answered")] == ["fresh"]
    assert _executions("asker", new) == []


@of_pairs
async def test_a_call_whose_question_was_answered_never_runs_again(
    stage: Stage, server_kind: str, client_kind: str
) -> None:
    """R28: nobody is asked, and has paid, twice."""
    old, upstream = await _server(stage, server_kind)
    proxy = await stage.proxy(upstream)
    client = await _session(stage, client_kind, proxy.port)
    await _ask(client, "elicitation", waits="after")
    await client.wait_told("asked", number=1)
    await client.order("answer", number=1, text="yes")
    await old.wait_told("answered", answer="yes")

    await old.kill()
    new, _ = await _server(stage, server_kind, port=upstream)
    error = await client.wait_told("error", call="asker")

    assert error["code"] == OUTCOME_UNKNOWN
    assert proxy.process.told("request re-issue", outcome="withheld", reason="question_answered")
    assert _executions("asker", new) == []


@of_pairs
async def test_a_cancel_of_the_client_reaches_the_call(
    stage: Stage, server_kind: str, client_kind: str
) -> None:
    server, upstream = await _server(stage, server_kind)
    cutter = await stage.cutter(upstream)
    proxy = await stage.proxy(cutter.port)
    client = await _session(stage, client_kind, proxy.port)
    for call in ("first", "second"):
        arguments = {"steps": 2, "hold_at": 1, "label": call}
        await client.order("call", call=call, tool="count", arguments=arguments)
        await client.wait_told("progress", call=call, progress=1)

    await client.order("cancel", call="first")
    await server.wait_told("cancelled", label="first")
    await server.order("release", label="second")

    assert json.loads((await client.wait_result("second"))["text"])["run"] == _executions("second", server)[0]
    assert server.told("cancelled", label="second") == []
    assert client.told("result", call="first") == []
    assert cutter.sent_up(b'"notifications/cancelled"') == 1


@of_servers
async def test_a_question_that_the_server_takes_back(stage: Stage, server_kind: str) -> None:
    server, upstream = await _server(stage, server_kind)
    proxy = await stage.proxy(upstream)
    client = await _session(stage, "typescript", proxy.port)
    await _ask(client, "ping", "before")  # the SDK takes no cancel of a request with the id 0
    await client.wait_result("before")
    await client.order("call", call="asker", tool="withdraw", arguments={"label": "asker"})
    await client.wait_told("asked", number=1)

    await server.order("release", label="asker")
    await client.wait_told("withdrawn", number=1)

    assert _answer(await client.wait_result("asker")) is None


@of_pairs
async def test_progress_of_an_answer_reaches_the_question(
    stage: Stage, server_kind: str, client_kind: str
) -> None:
    server, upstream = await _server(stage, server_kind)
    proxy = await stage.proxy(upstream)
    client = await _session(stage, client_kind, proxy.port)
    await _ask(client, "sampling")
    await client.wait_told("asked", number=1)

    for step in (1, 2):
        await client.order("work", number=1, progress=step)
        await server.wait_told("answer_progress", label="asker", progress=step)
    await client.order("answer", number=1, text="yes")

    assert _answer(await client.wait_result("asker")) == "yes"
    assert len(server.told("answer_progress")) == 2

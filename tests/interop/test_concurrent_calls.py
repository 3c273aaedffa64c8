"""Ten calls at once in one session of a real server whose process is killed and started again.

What was executed is told by the servers as it begins, and kept outside their processes.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.interop.stage import Stage
from tests.interop.steered import Steered

MARK = "dev.epochgate/restart"
OUTCOME_UNKNOWN = -32050
CALLS = [f"call-{number}" for number in range(10)]

pytestmark = pytest.mark.parametrize(
    ("server_kind", "client_kind"),
    [("python-1.30", "python-1.30"), ("python-2.3", "python-2.3"), ("typescript-sdk", "typescript")],
)


async def _ten_calls(stage: Stage, kind: str, port: int) -> Steered:
    """A client whose calls have all been executed so far that their first progress was seen."""
    client = await stage.client(kind, port)
    await client.order("initialize")
    await client.wait_told("initialized")
    for call in CALLS:
        arguments = {"steps": 3, "hold_at": 1, "label": call}
        await client.order("call", call=call, tool="count", arguments=arguments)
    for call in CALLS:
        await client.wait_told("progress", call=call, progress=1)
    return client


def _executions(*servers: Steered) -> Counter[str]:
    return Counter(line["label"] for server in servers for line in server.told("execution"))


async def test_one_heal_answers_them_all(stage: Stage, server_kind: str, client_kind: str) -> None:
    old, upstream = await stage.server(server_kind)
    proxy = await stage.proxy(upstream)
    client = await _ten_calls(stage, client_kind, proxy.port)

    await old.kill()
    new, _ = await stage.server(server_kind, "--released", port=upstream)
    answers = {call: await client.wait_result(call) for call in CALLS}

    runs = {call: (await new.wait_told("execution", label=call))["run"] for call in CALLS}
    assert {call: json.loads(answer["text"])["run"] for call, answer in answers.items()} == runs
    assert all(answer["meta"][MARK]["reissued"] for answer in answers.values())
    assert len(client.told("result")) == len(CALLS)
    assert _executions(old) == _executions(new) == dict.fromkeys(CALLS, 1)
    assert len(new.told("received", method="initialize")) == 1
    assert sum(proxy.moved("epochgate_heals_total").values()) == 1


async def test_none_that_declares_to_destroy_runs_twice(
    stage: Stage, server_kind: str, client_kind: str
) -> None:
    old, upstream = await stage.server(server_kind, "--destructive")
    proxy = await stage.proxy(upstream)
    client = await _ten_calls(stage, client_kind, proxy.port)

    await old.kill()
    new, _ = await stage.server(server_kind, "--destructive", "--released", port=upstream)
    errors = [await client.wait_told("error", call=call) for call in CALLS]

    assert [error["code"] for error in errors] == [OUTCOME_UNKNOWN] * len(CALLS)
    assert _executions(old, new) == dict.fromkeys(CALLS, 1)
    assert proxy.moved("epochgate_reissues_total") == {'method="tools/call",outcome="withheld"': 10}
    await client.order("call", call="next", tool="count", arguments={"steps": 1, "hold_at": 0})
    await client.wait_result("next")
    assert sum(proxy.moved("epochgate_heals_total").values()) == 1

"""A real Prometheus watches running proxies: alerts fire for what happens, and every query finds data."""

from __future__ import annotations

import math
import re
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from tests.deploy.prometheus import scenes
from tests.deploy.prometheus.reading import Json, alerts, rules, targets
from tests.deploy.prometheus.watching import Prometheus, watching
from tests.interop.stage import free_port
from tests.peers.install import Peers
from tests.shell.running import Proxy, running_proxy
from tests.support.client import Client
from tests.support.server import Epochs, McpServer, serving

# The alerts that the scenes are about, and the pods. EpochgateAbsent alone cannot fire beside others.
WANTED = {
    ("EpochgateDivergence", "early"),
    ("EpochgateLogLinesDropped", "early"),
    ("EpochgateDivergence", "stating"),
    ("EpochgateEpochDrift", "stating"),
    ("EpochgateForeignMessages", "stating"),
    ("EpochgateAffinityFaults", "stating"),
    ("EpochgateHealFailed", "stating"),
    ("EpochgateHealsFailing", "stating"),
    ("EpochgateReissueWithheld", "narrow"),
    ("EpochgateUnprovenAnswers", "narrow"),
    ("EpochgateAnswerFailed", "narrow"),
    ("EpochgateJournalEvictions", "narrow"),
    ("EpochgateJournalFull", "narrow"),
    ("EpochgateSessionsAtLimit", "narrow"),
    ("EpochgateReloadFailed", "narrow"),
    ("EpochgateDescriptorsLow", "narrow"),
    ("EpochgateServerUnreached", "narrow"),
    ("EpochgateNotReady", "alone"),
    ("EpochgateUpstreamErrors", "alone"),
    ("EpochgateRestarting", "restarting"),
    ("EpochgateTargetDown", "restarting"),
}
ABSENT = "EpochgateAbsent"
# What Grafana puts in the place of its variables.
GIVEN = {
    "$__rate_interval": "5m",  # longer than the scenes take
    "$__range_s": "300",
    "$__range": "5m",
    "$namespace": "shop",
    "$job": "shop/agents",
    "$pod": ".*",
    "$instance": ".*",
}


async def test_alerts_fire_for_what_happens_and_every_query_finds_data(peers: Peers, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        with_epochs = await stack.enter_async_context(serving(McpServer()))
        without = await stack.enter_async_context(serving(McpServer(epochs=Epochs.NEVER)))
        away = await stack.enter_async_context(serving(McpServer()))

        early, health = await stack.enter_async_context(scenes.deaf_proxy(with_epochs.port))
        await scenes.diverge(with_epochs, early)  # before anything is scraped
        pods = {name: free_port() for name in ("stating", "narrow", "alone", "restarting")}
        prometheus = await stack.enter_async_context(watching(peers, tmp_path, {"early": health, **pods}))

        async def run(pod: str, server: McpServer, *flags: str) -> Proxy:
            return await stack.enter_async_context(running_at(pods[pod], server, *flags))

        settings = tmp_path / "epochgate.yaml"
        settings.write_text("hold: 1m\n")
        stating = await run("stating", with_epochs)
        narrow = await run(
            "narrow", without, "--config", str(settings), *scenes.NARROW, *scenes.beside_nobody(without)
        )
        alone = await run("alone", away, *scenes.IMPATIENT)
        await prometheus.until_seen("count(epochgate_build_info) == 4")

        await away.stop()
        await scenes.call_in_vain(alone.port)
        await start_three_times(prometheus, away, pods["restarting"])
        await break_what_states_epochs(with_epochs, stating.port)
        leaver = await stack.enter_async_context(Client(narrow.port))
        await use_up_what_is_narrow(without, narrow, leaver)
        await scenes.spoil_settings(narrow, settings)
        scenes.take_descriptors(narrow)

        await prometheus.until_fired(WANTED)
        divergent = {pod for name, pod in prometheus.fired if name == "EpochgateDivergence"}
        assert divergent == {"early", "stating"}
        for rule in rules():
            if rule.get("alert") != ABSENT:
                await finds_numbers(prometheus, rule["expr"])
        for where, target in targets():
            await shows(prometheus, where, target)


def test_every_alert_but_one_is_among_those_that_fire() -> None:
    assert {name for name, _ in WANTED} | {ABSENT} == {rule["alert"] for rule in alerts()}


def running_at(health: int, server: McpServer, *flags: str) -> AbstractAsyncContextManager[Proxy]:
    return running_proxy(server.port, "--health", f"127.0.0.1:{health}", *flags)


async def start_three_times(prometheus: Prometheus, server: McpServer, health: int) -> None:
    """And end it each time when it has been scraped."""
    for restarts in range(3):
        async with running_at(health, server):
            seen = f'changes(process_start_time_seconds{{pod="restarting"}}[1h]) == {restarts}'
            await prometheus.until_seen(seen)


async def break_what_states_epochs(server: McpServer, port: int) -> None:
    await scenes.diverge(server, port)
    await scenes.resume(server, port)
    await scenes.drift(server, port)
    await scenes.send_what_is_foreign(server, port)
    await scenes.go_astray(server, port)
    await scenes.deploy_another(server, port)


async def use_up_what_is_narrow(server: McpServer, proxy: Proxy, leaver: Client) -> None:
    await scenes.withhold(server, proxy.port)
    await scenes.poll_without_proof(server, proxy.port)
    await scenes.come_back_too_late(server, proxy.port)
    await scenes.open_too_many(proxy.port)
    await scenes.stay_away(server, proxy, leaver)


async def finds_numbers(prometheus: Prometheus, expression: str) -> list[Json]:
    """What an expression finds; at least one number."""
    samples = await prometheus.query(expression)
    numbers = [sample for sample in samples if not math.isnan(float(sample["value"][1]))]
    assert numbers, f"no data: {expression}"
    return numbers


async def shows(prometheus: Prometheus, where: str, target: Json) -> None:
    """A query of the dashboard has data, with every label that its legend names."""
    expression = target["expr"]
    for variable, value in GIVEN.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression, where
    found = await finds_numbers(prometheus, expression)
    labels = re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))
    assert all(any(sample["metric"].get(label) for sample in found) for label in labels), where

"""What the official conformance suite records of real servers and clients is the same through the proxy.

The same check by check: how each ended, its message, and the header values, events and bodies beside it.
Where it is not, the difference is written out, with its reason, in `conformance_differences`. The suite asks
two servers that are alike, one directly and one behind the proxy, or one client in both ways.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.interop import conformance_differences as known
from tests.interop.conformance import Record, Suite, differences, statuses
from tests.interop.stage import HERE, Stage
from tests.peers.install import Peers

RELEASED = "conformance"  # 0.1.16
OF_2026 = "conformance-2026"  # 0.2.0-alpha.12
CLIENTS = {
    "python-1.30": HERE / "python" / "conformance_client.py",
    "python-2.3": HERE / "python" / "conformance_client.py",
    "typescript-sdk": HERE / "ts" / "conformance-client.mjs",
}

Both = tuple[Record, Record]
Ask = Callable[..., Awaitable[Both]]


@pytest.fixture
def start_servers(stage: Stage, peers: Peers) -> Callable[[str], Awaitable[Ask]]:
    """Starts two servers of a kind, one behind the proxy; what it gives asks both about a selection."""

    async def start(kind: str) -> Ask:
        direct, behind = await asyncio.gather(stage.fixtures(kind), stage.fixtures(kind))
        through = (await stage.proxy(behind)).port

        async def ask(release: str, *selection: str) -> Both:
            suite = Suite(peers, release)
            return await asyncio.gather(
                suite.ask_server(direct, *selection), suite.ask_server(through, *selection)
            )

        return ask

    return start


def told_apart(both: Both) -> dict[str, str]:
    """The differences as they are written in `conformance_differences`."""
    return {name: "\n".join(["", *lines, ""]) for name, lines in differences(*both).items()}


@pytest.mark.parametrize("kind", ["python-1.30", "typescript-sdk"])
async def test_a_server_passes_everything_and_does_so_behind_the_proxy(
    start_servers: Callable[[str], Awaitable[Ask]], kind: str
) -> None:
    ask = await start_servers(kind)
    language = kind.partition("-")[0]

    released, of_2025 = await asyncio.gather(
        ask(RELEASED, "--suite", "all"), ask(OF_2026, "--requirements", "2025-11-25")
    )

    direct, through = released
    assert len(direct) == 32
    assert statuses(direct) == {"SUCCESS": 44, "WARNING": 2, "INFO": 6}
    assert statuses(through) == {"SUCCESS": 45, "WARNING": 1, "INFO": 7}
    assert told_apart(released) == {
        "dns-rebinding-protection": known.REFUSED_BY_THE_PROXY[language],
        "server-sse-multiple-streams": known.PRIMED_STREAMS,
        "server-sse-polling": known.PRIMED_CALL,
    }
    assert_passes_2025(of_2025, language)


async def test_a_server_of_two_eras_passes_everything_and_does_so_behind_the_proxy(
    start_servers: Callable[[str], Awaitable[Ask]],
) -> None:
    """What fails of 2026-07-28 is the extension for tasks, which the SDK lacks and no revision demands."""
    ask = await start_servers("python-2.3")

    of_2025 = await ask(OF_2026, "--requirements", "2025-11-25")
    of_2026 = await ask(OF_2026, "--requirements", "2026-07-28")

    assert_passes_2025(of_2025, "python")
    direct, through = of_2026
    demanded = {name: checks for name, checks in direct.items() if not name.startswith("tasks-")}
    assert (len(direct), len(demanded)) == (50, 40)
    assert statuses(demanded) == {"SUCCESS": 151, "WARNING": 1, "INFO": 1}
    assert statuses(direct) == statuses(through)
    assert told_apart(of_2026) == {"dns-rebinding-protection": known.REFUSED_BY_THE_PROXY["python"]}


def assert_passes_2025(of_2025: Both, language: str) -> None:
    direct, through = of_2025
    assert len(direct) == 33
    assert statuses(direct) == {"SUCCESS": 84, "INFO": 8 if language == "python" else 7}
    assert statuses(through) == {"SUCCESS": 83, "INFO": 7}
    assert told_apart(of_2025) == {
        "dns-rebinding-protection": known.REFUSED_BY_THE_PROXY[language],
        "server-sse-polling": known.POLLED_BY_THE_PROXY[language],
    }


@pytest.fixture
def ask_client(peers: Peers) -> Ask:
    """Asks a client of a kind about one scenario, directly and through a proxy of its own."""
    programs = {
        "python-1.30": peers.python_1,
        "python-2.3": peers.python_2,
        "typescript-sdk": peers.node_22,
    }

    async def ask(kind: str, release: str, scenario: str, *selection: str) -> Both:
        suite = Suite(peers, release)
        command = [str(programs[kind]), str(CLIENTS[kind])]
        return await asyncio.gather(
            suite.ask_client(command, scenario, *selection),
            suite.ask_client(command, scenario, *selection, is_through=True),
        )

    return ask


@pytest.mark.parametrize("kind", ["python-1.30", "typescript-sdk"])
async def test_a_client_passes_and_does_so_in_front_of_the_proxy(ask_client: Ask, kind: str) -> None:
    language = kind.partition("-")[0]

    initializing, calling, asked = await asyncio.gather(
        *(
            ask_client(kind, RELEASED, scenario)
            for scenario in ("initialize", "tools_call", "elicitation-sep1034-client-defaults")
        )
    )
    polling = await ask_client(kind, RELEASED, "sse-retry")  # measures time, so alone

    passed = [statuses(both[0])["SUCCESS"] for both in (initializing, calling, asked, polling)]
    assert passed == [1, 1, 5, 3]
    for direct, through in (initializing, calling, asked, polling):
        assert statuses(direct) == statuses(through)
        assert statuses(direct).keys() == {"SUCCESS", "INFO"}
    assert told_apart(initializing) == {}
    assert told_apart(calling) == {}
    assert told_apart(asked) == {"elicitation-sep1034-client-defaults": known.STAMPED}
    assert told_apart(polling) == {"sse-retry": known.POLLING[language]}


async def test_a_client_without_sessions_passes_and_does_so_in_front_of_the_proxy(
    ask_client: Ask,
) -> None:
    """What it says in headers arrives as it was said, and so does the state that a server gave it."""
    scenarios = (
        "request-metadata",
        "http-standard-headers",
        "http-custom-headers",
        "sep-2322-client-request-state",
    )

    asked = [
        ask_client("python-2.3", OF_2026, scenario, "--spec-version", "2026-07-28") for scenario in scenarios
    ]
    recorded = await asyncio.gather(*asked)

    assert [statuses(direct) for direct, _ in recorded] == [
        {"SUCCESS": 6, "SKIPPED": 2},
        {"SUCCESS": 9, "SKIPPED": 2},
        {"SUCCESS": 18},
        {"SUCCESS": 5},
    ]
    assert [told_apart(both) for both in recorded] == [{}, {}, {}, {}]

"""Plays scenarios for pairs of clients and servers, some pairs at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from tests.interop.matrix.outcomes import Cell, Ending, Outcome, compare
from tests.interop.matrix.peers import Client, Server
from tests.interop.matrix.play import Play, StageBroke
from tests.interop.matrix.scenarios import SCENARIOS, play_scenario
from tests.interop.stage import Stage
from tests.peers.install import Peers

Pair = tuple[Client, Server]

# Directly, pairs mostly wait for answers that never come; through the proxy they keep the cores busy.
DIRECTLY_AT_ONCE = 12
THROUGH_AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Result:
    """One cell. `direct` is None where it was not played: nothing is better than what came through."""

    client: str
    server: str
    scenario: str
    direct: Outcome | None
    through: Outcome

    @property
    def cell(self) -> Cell:
        return Cell.WORKS if self.direct is None else compare(self.direct, self.through)

    @property
    def complaint(self) -> str:
        """Which promise was broken, or nothing."""
        if self.cell is Cell.WORSE:
            return "worse than directly"
        if self.through.ending not in (Ending.RIGHT, Ending.ERROR):
            return str(self.through.ending.value)
        return "" if self.through.keeps_session else "the session is lost for good"


async def play_all(peers: Peers, pairs: Sequence[Pair]) -> list[Result]:
    """Every scenario for these pairs, both ways."""
    limits = {False: asyncio.Semaphore(DIRECTLY_AT_ONCE), True: asyncio.Semaphore(THROUGH_AT_ONCE)}
    ways = [(pair, is_proxied) for is_proxied in (False, True) for pair in _longest_first(pairs)]
    async with asyncio.TaskGroup() as group:
        playing = {
            (pair, is_proxied): group.create_task(
                _play_way(peers, pair, SCENARIOS, limits[is_proxied], is_proxied=is_proxied)
            )
            for pair, is_proxied in ways
        }
    outcomes = {way: task.result() for way, task in playing.items()}
    return [
        Result(pair[0].name, pair[1].name, name, outcomes[pair, False][name], outcomes[pair, True][name])
        for pair in pairs
        for name in SCENARIOS
    ]


async def play_through(peers: Peers, pairs: Sequence[Pair]) -> list[Result]:
    """Every scenario for these pairs through the proxy, and directly what did not end well so."""
    limit = asyncio.Semaphore(THROUGH_AT_ONCE)
    async with asyncio.TaskGroup() as group:
        playing = [group.create_task(_play_pair(peers, pair, limit)) for pair in pairs]
    return list(chain.from_iterable(task.result() for task in playing))


async def _play_pair(peers: Peers, pair: Pair, limit: asyncio.Semaphore) -> list[Result]:
    through = await _play_way(peers, pair, SCENARIOS, limit, is_proxied=True)
    amiss = [name for name, outcome in through.items() if not outcome.is_good]
    direct = await _play_way(peers, pair, amiss, limit, is_proxied=False) if amiss else {}
    return [
        Result(pair[0].name, pair[1].name, name, direct.get(name), outcome)
        for name, outcome in through.items()
    ]


async def _play_way(
    peers: Peers, pair: Pair, names: Iterable[str], limit: asyncio.Semaphore, *, is_proxied: bool
) -> dict[str, Outcome]:
    way = f"{pair[0].name} with {pair[1].name} {'through the proxy' if is_proxied else 'directly'}"
    async with limit:
        began = time.monotonic()
        try:
            outcomes = await _play(peers, pair, names, is_proxied=is_proxied)
        except StageBroke as error:  # on a machine that is too busy for its own deadlines
            print(f"{way} once more: {error}", flush=True)
            outcomes = await _play(peers, pair, names, is_proxied=is_proxied)
        print(f"{way}: {time.monotonic() - began:.0f} s", flush=True)
    return outcomes


async def _play(peers: Peers, pair: Pair, names: Iterable[str], *, is_proxied: bool) -> dict[str, Outcome]:
    stage = Stage(peers)
    try:
        play = Play(stage, *pair, is_proxied=is_proxied)
        await play.open()
        return {name: await play_scenario(play, SCENARIOS[name]) for name in names}
    finally:
        await stage.clear()


def _longest_first(pairs: Sequence[Pair]) -> list[Pair]:
    """Clients that wait for long begin first, so that the run does not end with one of them alone."""
    return sorted(pairs, key=lambda pair: -(pair[0].timeout_s or 0))

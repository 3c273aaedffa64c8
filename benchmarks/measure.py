"""The rows of the benchmark, and one measurement of one row at one proxy."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from benchmarks.load import Session
from benchmarks.proxies import Proxy
from benchmarks.upstream import Upstream

WARM_UP = 10  # One part in so many of a measurement runs before it, to fill pools and caches.


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work. `events` 0: JSON calls. `block`: events per write of the server.

    `budget`: the ratio that is aimed at; None: shown, not judged.
    """

    name: str
    unit: str
    budget: float | None
    sessions: int
    calls: int
    events: int = 0
    block: int = 0
    style: str = "plain"

    @property
    def units(self) -> int:
        """What the cost is divided by."""
        return self.calls * max(1, self.events)

    @property
    def is_memory(self) -> bool:
        """Is the cost memory, and not CPU?"""
        return self.name == "idle"

    def scaled(self, factor: float, sessions: int | None = None) -> "Row":
        """The same work in another amount, at least one call for each session."""
        sessions = sessions or self.sessions
        return replace(self, sessions=sessions, calls=max(sessions, round(self.calls * factor)))


# Burst has two regimes: with small batches the kernel's cost dominates, with large ones the proxy's own code.
# `joined` is the worst case: no server writes so, but a buffer on the way may join the chunks.
CPU_ROWS = (
    Row("json", "call", budget=0.5, sessions=8, calls=4000),
    Row("burst-4", "event", budget=1.1, sessions=8, calls=64, events=1000, block=4),
    Row("burst-64", "event", budget=1.1, sessions=8, calls=128, events=1024, block=64),
    Row("burst-ids", "event", budget=1.1, sessions=8, calls=128, events=1024, block=64, style="ids"),
    Row("trickle", "event", budget=1.0, sessions=8, calls=64, events=400, block=1),
    Row("trickle-ids", "event", budget=1.0, sessions=8, calls=64, events=400, block=1, style="ids"),
    Row("burst-joined", "event", budget=None, sessions=8, calls=128, events=1024, block=64, style="joined"),
)
IDLE_ROW = Row("idle", "session", budget=1.1, sessions=1, calls=1000)


@dataclass(frozen=True, slots=True)
class Sample:
    """Cost per unit (CPU in µs, or memory in KiB); units per read of the proxy where reads can be counted."""

    cost: float
    units_per_read: float | None = None


async def measure_cpu(row: Row, proxy: Proxy, upstream: Upstream) -> Sample:
    """CPU µs per unit. Raises LoadError when an answer is wrong."""
    sessions = [await Session.open(proxy.address) for _ in range(row.sessions)]
    await _drive(row.scaled(1 / WARM_UP), sessions, upstream)
    cpu, reads = proxy.cpu_s(), proxy.reads()
    await _drive(row, sessions, upstream)
    cpu, reads = proxy.cpu_s() - cpu, proxy.reads() - reads
    await _all(session.end() for session in sessions)
    return Sample(cpu * 1e6 / row.units, row.units / reads if reads > row.calls else None)


async def measure_idle(row: Row, proxy: Proxy) -> Sample:
    """KiB per idle session: initialized, its standalone stream open. The proxy must be fresh."""
    sessions = await _open_idle(proxy, max(1, row.calls // WARM_UP))
    before = proxy.pss_kb()
    sessions += await _open_idle(proxy, row.calls)
    grown = proxy.pss_kb() - before
    for session in sessions:
        session.drop()
    return Sample(grown / row.calls)


async def _open_idle(proxy: Proxy, count: int) -> list[Session]:
    sessions = []
    for _ in range(count):
        session = await Session.open(proxy.address)
        await session.listen()
        sessions.append(session)
    return sessions


async def _drive(row: Row, sessions: list[Session], upstream: Upstream) -> None:
    """Spread the calls of a row over the sessions, one at a time in each."""
    share, rest = divmod(row.calls, len(sessions))
    counts = [share + (i < rest) for i in range(len(sessions))]
    await _all(
        _repeat(_call(row, session, upstream), count) for session, count in zip(sessions, counts, strict=True)
    )


def _call(row: Row, session: Session, upstream: Upstream) -> Callable[[], Awaitable[None]]:
    if not row.events:
        return session.call_json
    return lambda: session.call_stream(upstream, row.events, row.block, row.style)


async def _repeat(call: Callable[[], Awaitable[None]], count: int) -> None:
    for _ in range(count):
        await call()


async def _all(work: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*work)

"""G8, and what a run must not leave behind: heals without measure, streams, upstream sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from epochgate.core.commands import HealBegun
from epochgate.core.session import Session
from epochgate.core.states import SessionState
from tests.properties.simulation.calm import is_calm
from tests.properties.simulation.host import Host
from tests.properties.simulation.splices import Violation

if TYPE_CHECKING:
    from tests.properties.simulation.world import World


def examine(world: World) -> Iterator[Violation]:
    for host in world.hosts:
        yield from _heals(world, host)
        if isinstance(host.middle, Session):
            yield from _streams(world, host, host.middle)
            yield from _upstream_sessions(world, host, host.middle)
    if is_calm(world) and world.server.opened > len(world.hosts):
        yield Violation("G6 needless", f"{world.server.opened} sessions were begun in a calm run")


def _heals(world: World, host: Host) -> Iterator[Violation]:
    mark = f"{host.name} <<"
    begun = [at for at, m, what in world.trace.lines if m == mark and isinstance(what, HealBegun)]
    for first, last in zip(begun, begun[world.policy.max_heals_per_minute :], strict=False):
        if last - first < 60.0:
            yield Violation("G8 heals", f"{host.name} healed at {begun}")


def _streams(world: World, host: Host, session: Session) -> Iterator[Violation]:
    """Long after the last answer no finished stream is kept, and nothing of one in the journals."""
    kept = [stream for stream in session.streams.values() if stream.is_request and stream.newest().is_over]
    if kept and world.has_rested:
        yield Violation("G8 streams", f"{host.name} keeps {kept}")


def _upstream_sessions(world: World, host: Host, session: Session) -> Iterator[Violation]:
    """Each upstream session is live, proven gone, or was DELETEd (R26)."""
    begun = {one.upstream_id.decode() for other in world.hosts for one in other.generations}
    is_live = session.state is not SessionState.ENDED or _ended_idle(world, host)
    live = {_current(session)} if is_live else set()
    live |= {one.generation.upstream_id.decode() for one in session.streams.values() if not one.is_over}
    # A proof of loss frees of the DELETE (R26) also when an epoch that lies gave it, and when the session
    # has let go of the generation. Of several under one id the newest counts: it took the id over (R1).
    is_gone = {one.upstream_id.decode(): one.is_gone for one in host.generations}
    gone = {session_id for session_id, is_proven in is_gone.items() if is_proven}
    for session_id in host.trespass.sessions:
        if session_id in host.trespass.own - begun:
            continue  # the answer to the client's own `initialize` broke: as without a proxy (G6)
        if session_id in world.server.sessions and session_id not in live | gone | host.ended_upstream:
            yield Violation("R26", f"{host.name} left the session {session_id} to the server")


def _ended_idle(world: World, host: Host) -> bool:
    """The last session of a client that is gone may stay for the server's own idle limit."""
    deletes = [leg for client in world.clients for _, leg in client.deletes]
    return not any(leg.exchange is not None and leg.exchange.host is host for leg in deletes)


def _current(session: Session) -> str:
    return session.current.upstream_id.decode() if session.generations else ""

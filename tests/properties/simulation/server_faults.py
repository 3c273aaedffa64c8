"""Faults of upstream legs, and of the server's sessions and processes."""

from __future__ import annotations

from tests.properties.simulation import client_faults
from tests.properties.simulation.targets import Targets
from tests.properties.simulation.wire import FOREVER

NEVER_S = 1e6


def upstream_cut(at: Targets) -> str | None:
    connection = at.connection()
    if connection is None:
        return None
    connection.wire.cut()
    return repr(connection)


def upstream_arm(at: Targets) -> str | None:
    connection = at.connection()
    if connection is None:
        return None
    count = at.rng.randint(0, 700)
    connection.wire.arm(count)
    return f"{connection!r} in {count} bytes"


def clean_end(at: Targets) -> str | None:
    connection = at.pick([c for c in at.world.connections if c.is_open and c.wire.has_answered])
    if connection is None:
        return None
    if connection.writer is not None:
        connection.writer.detach(connection)
    connection.finish()
    return repr(connection)


def upstream_stall(at: Targets) -> str | None:
    connection = at.connection()
    if connection is None:
        return None
    seconds = at.rng.choice((5.0, 100.0, FOREVER))
    connection.wire.stall(seconds)
    return f"{connection!r} for {seconds} s"


def evict(at: Targets) -> str | None:
    session_id = at.pick(list(at.world.server.sessions))
    if session_id is None:
        return None
    at.world.server.evict(session_id)
    return session_id


def recreate(at: Targets) -> str | None:
    """The whole fault of the field: evicted, made anew by another request, and a leg that breaks."""
    evicted = evict(at)
    client_faults.poke(at)
    cut = at.rng.choice((client_faults.client_cut, upstream_cut, client_faults.client_arm))
    at.world.clock.after(at.rng.choice((0.0, 0.1, 1.0)), lambda: at.world.faults.follow(cut))
    return evicted


def standalone_gap(at: Targets) -> str | None:
    """A client leaves its standalone stream, and meanwhile an upstream leg breaks."""
    what = client_faults.standalone_gap(at)
    if what is not None:
        at.world.clock.after(at.rng.choice((1.0, 3.0)), lambda: at.world.faults.follow(upstream_cut))
    return what


def restart(at: Targets) -> str:
    seconds = at.rng.choice((0.0, 0.5, 2.0, 8.0, 20.0, 60.0, NEVER_S))
    at.world.server.restart(seconds)
    return f"down for {seconds} s"


def move_away(at: Targets) -> str:
    at.world.server.move_away()
    return "what runs goes on"


def mute(at: Targets) -> str:
    seconds = at.rng.choice((1.0, 8.0, 30.0, 120.0))
    at.world.server.be_silent(seconds)
    return f"for {seconds} s"

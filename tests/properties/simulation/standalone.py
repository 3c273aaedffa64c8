"""G5 of the standalone stream: what reached the proxy reaches the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.properties.simulation.calm import is_calm, was_slow
from tests.properties.simulation.client import Client
from tests.properties.simulation.ends import DENIED
from tests.properties.simulation.splices import Violation

if TYPE_CHECKING:
    from tests.properties.simulation.world import World


def examine(world: World, client: Client) -> Iterator[Violation]:
    serials = [
        seen.origin.serial
        for seen in client.standalone
        if seen.origin is not None and not seen.origin.execution
    ]
    if not serials or client.is_deleted or client.blind_opens > 1 or client.is_standalone_refused:
        return
    if was_slow(world) or client.has_begun_anew or _is_denied(client):
        return
    missing = [serial for serial in _arrived(world, client) if serial not in serials]
    if missing:
        yield Violation("G5 standalone", f"{client.name}: {missing} reached the proxy, not the client")
    sent = [origin.serial for origin in world.server.notified.get(f"{client.name}.sa", [])]
    if is_calm(world) and serials != sent:
        yield Violation("G5 standalone", f"{client.name} was sent {sent}, saw {serials}")


def _is_denied(client: Client) -> bool:
    """With new credentials, about which the server cannot be asked to the end of the run (R32)."""
    leg = client.standalone_leg
    return leg is not None and leg.status in DENIED and client.token != f"{client.name}.0"


def _arrived(world: World, client: Client) -> Iterator[int]:
    """What the proxy received for the standalone stream where nothing can speak against relaying it."""
    for origin in world.server.notified.get(f"{client.name}.sa", []):
        arrivals = world.log.arrivals.get(origin.serial, [])
        if arrivals and not arrivals[0].connection.is_resumed and arrivals[0].tag is None:
            yield origin.serial

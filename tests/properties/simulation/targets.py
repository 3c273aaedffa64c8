"""What a fault can hit: open legs, unanswered calls, clients with a session."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tests.properties.simulation.calls import Call, Post
    from tests.properties.simulation.client import Client
    from tests.properties.simulation.connection import Connection
    from tests.properties.simulation.exchange import Exchange
    from tests.properties.simulation.world import World

Item = TypeVar("Item")


class Targets:
    """Picks at random from what there is now; the choices come from a source of their own."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world, self.rng = world, rng

    def pick(self, items: list[Item]) -> Item | None:
        return self.rng.choice(items) if items else None

    def client(self) -> Client | None:
        return self.pick([client for client in self.world.clients if client.is_ready])

    def post(self) -> tuple[Client, Post] | None:
        return self.pick(
            [(client, post) for client in self.world.clients for post in client.posts if not post.is_settled]
        )

    def call(self) -> tuple[Client, Call] | None:
        return self.pick(
            [(client, call) for client in self.world.clients for call in client.calls if not call.is_settled]
        )

    def connection(self) -> Connection | None:
        """An open upstream leg; mostly one that carries a stream."""
        legs = [connection for connection in self.world.connections if connection.is_open]
        busy = [connection for connection in legs if connection.writer is not None]
        return self.pick(busy if busy and self.rng.random() < 0.8 else legs)

    def exchange(self) -> Exchange | None:
        """An open client leg; mostly one that a call waits for."""
        legs = [exchange for exchange in self.world.exchanges if exchange.wire.is_open]
        posts = [post for client in self.world.clients for post in client.posts]
        busy = [post.leg.exchange for post in posts if post.leg is not None]
        owed = [exchange for exchange in legs if exchange in busy]
        return self.pick(owed if owed and self.rng.random() < 0.8 else legs)

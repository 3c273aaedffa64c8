"""What a stand-in server is made of: sessions, their streams with a connection each, and runs of the tool."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.shell.wire import Peer
from tests.support.legs import Json, chunk

if TYPE_CHECKING:
    from tests.standins.servers.base import StandInServer


class Leg:
    """One connection on which a stream is written."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.over = asyncio.Event()

    def cut(self) -> None:
        """Break the connection as a server does that is killed: no last chunk."""
        self.peer.writer.transport.abort()
        self.over.set()


@dataclass(eq=False)
class Stream:
    """A stream of the server: what was emitted on it, and the connection that it has."""

    name: str
    session: Session
    number: int = 0
    events: list[tuple[str, bytes]] = field(default_factory=list)  # kept for a replay
    emitted: int = 0
    leg: Leg | None = None
    is_finished: bool = False


@dataclass(eq=False)
class Session:
    """One session object of the server; `epoch` counts them."""

    id: str
    epoch: int
    version: str
    streams: dict[str, Stream] = field(default_factory=dict)
    gets: int = 0

    @property
    def standalone(self) -> Stream:
        return self.streams.setdefault("", Stream("", self))


@dataclass(eq=False)
class Run:
    """One execution of the tool. Its texts tell which one."""

    server: StandInServer
    number: int
    stream: Stream
    request: Json

    async def progress(self, step: int) -> None:
        params = {"progressToken": self.request["params"]["_meta"]["progressToken"], "progress": step}
        await self.server.tell(
            self.stream, "notifications/progress", {**params, "message": f"run {self.number} step {step}"}
        )

    async def ask(self, number: object) -> None:
        """Ask the client something before it goes on."""
        await self.server.emit(
            self.stream, {"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": {}}
        )

    async def raw(self, data: bytes) -> None:
        """These bytes, on the connection that there is."""
        assert self.stream.leg is not None
        await self.stream.leg.peer.send(chunk(data))

    async def answer(self) -> None:
        result = {"content": [{"type": "text", "text": f"run {self.number} done"}]}
        message = {
            "jsonrpc": "2.0",
            "id": self.request["id"],
            "result": self.server.tagged(self.stream, result),
        }
        self.stream.is_finished = True
        await self.server.emit(self.stream, message, is_answer=True)
        await self.server.finish(self.stream)

"""One simulated world: clients, what stands in the middle, a server, and the faults of a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Literal

from epochgate.core import events, jsonrpc
from epochgate.core.policy import Policy, PollWithoutEpoch, Reissue
from tests.properties.simulation import faults, oracle, traits
from tests.properties.simulation.client import Client
from tests.properties.simulation.clock import Clock, Runaway
from tests.properties.simulation.connection import Connection, Log
from tests.properties.simulation.core import make_session
from tests.properties.simulation.faults import LAST_FAULT_S, Faults
from tests.properties.simulation.host import Crashed, Exchange, Host, Leg, Middle
from tests.properties.simulation.relay import Relay
from tests.properties.simulation.server import Server
from tests.properties.simulation.splices import Violation
from tests.properties.simulation.trace import Trace
from tests.properties.simulation.wire import Sink

Mode = Literal["core", "relay"]
REST_S = 4000.0  # after the last fault: longer than the longest limit of the core, 3,600 s of silence
NOTIFY_EVERY_S = 2.0
TARGET = b"/mcp"


@dataclass
class Outcome:
    """What a run showed; `violations` is empty when every guarantee held."""

    seed: int
    violations: list[Violation]
    trace: Trace
    summary: str
    struck: list[str] = field(default_factory=list)


class World:
    """`run` plays the seed to its end. The same seed and mode always give the same run."""

    def __init__(self, seed: int, mode: Mode = "core") -> None:
        self.seed, self.mode = seed, mode
        self.clock, self.trace, self.log = Clock(), Trace(), Log()
        rng = self._rng("traits")
        self.policy = _draw_policy(rng)
        self.server = Server(traits.draw_server(rng), self.clock, self._rng("server"))
        count = rng.choice((1, 1, 2))
        self.clients = [
            Client(f"c{n}", traits.draw_client(rng), self.clock, self._rng(f"client {n}"), self)
            for n in range(count)
        ]
        self.plan = faults.draw(self._rng("plan"))
        self.faults = Faults(self, self._rng("faults"))
        self.connections: list[Connection] = []
        self.exchanges: list[Exchange] = []
        self.hosts: list[Host] = []
        self._routes: dict[bytes, Host] = {}
        self._net = self._rng("network")

    def _rng(self, purpose: str) -> Random:
        return Random(f"{self.seed}/{purpose}")

    def run(self) -> Outcome:
        for client in self.clients:
            client.start()
        self.faults.schedule(self.plan)
        for n in range(int(LAST_FAULT_S / NOTIFY_EVERY_S)):
            self.clock.after(n * NOTIFY_EVERY_S, self._notify)
        try:
            self.clock.run(LAST_FAULT_S + REST_S)
            violations = oracle.examine(self)
        except Runaway as runaway:
            violations = [Violation("G8", str(runaway))]
        except Crashed as crashed:
            violations = [Violation("crash", str(crashed))]
        return Outcome(self.seed, violations, self.trace, self._summary(), self.faults.done)

    def _notify(self) -> None:
        for session_id in list(self.server.sessions):
            self.server.notify(session_id)

    def _summary(self) -> str:
        clients = "\n".join(f"  {client.name} {client.traits}" for client in self.clients)
        policy = f"{self.policy.reissue.value}, poll {self.policy.poll_without_epoch.value}"
        return f"  {self.server.traits}\n{clients}\n  policy {policy}\n  {self.plan}"

    # --- the network ----------------------------------------------------------------------------

    def request(
        self, client: Client, method: str, headers: dict[str, str], body: bytes, sink: Sink
    ) -> Exchange:
        """Send a client's request to the middle; it is there a moment later unless it is cut before."""
        exchange = Exchange(len(self.exchanges) + 1, self.clock, self._net, sink, self.trace)
        self.exchanges.append(exchange)
        pairs = tuple((name.encode(), value.encode()) for name, value in headers.items())
        head = events.RequestHead(TARGET, pairs, client.name.encode())
        delay = self._net.choice((0.0, 0.001, 0.02))
        self.clock.after(delay, lambda: self._deliver(exchange, method, head, headers, body))
        return exchange

    def _deliver(
        self,
        exchange: Exchange,
        method: str,
        head: events.RequestHead,
        headers: dict[str, str],
        body: bytes,
    ) -> None:
        if exchange.is_gone:
            return
        session_id = headers.get("mcp-session-id")
        host = self._new_host() if session_id is None else self._routes.get(session_id.encode())
        if host is None or host.is_forgotten:
            exchange.open(404, ((b"content-type", b"text/plain"),))
            exchange.end()
            return
        exchange.host = host
        host.exchanges[exchange.number] = exchange
        host.feed(_arrived(exchange.number, method, head, headers, body))

    def _new_host(self) -> Host:
        middle: Middle = Relay() if self.mode == "relay" else make_session(self.policy, self._rng("entropy"))
        name = f"h{len(self.hosts)}"
        host = Host(
            name, middle, self.clock, self._net, self.server, self.trace, self._connect, self._register
        )
        self.hosts.append(host)
        return host

    def _register(self, visible_id: bytes, host: Host) -> None:
        self._routes[visible_id] = host

    def _connect(self, leg: Leg) -> Connection:
        connection = Connection(len(self.connections) + 1, self.clock, self._net, leg, self.log)
        self.connections.append(connection)
        return connection


def _arrived(
    number: int, method: str, head: events.RequestHead, headers: dict[str, str], body: bytes
) -> events.Event:
    match method:
        case "POST":
            return events.PostArrived(number, head, body, jsonrpc.read_body(body))
        case "GET":
            cursor = headers.get("last-event-id")
            return events.GetArrived(number, head, cursor.encode() if cursor else None)
        case _:
            return events.DeleteArrived(number, head)


def _draw_policy(rng: Random) -> Policy:
    reissue = rng.choice(
        (Reissue.UNLESS_DESTRUCTIVE,) * 6 + (Reissue.ALWAYS, Reissue.HINTED, Reissue.READS, Reissue.NEVER)
    )
    return Policy(reissue=reissue, poll_without_epoch=rng.choice(tuple(PollWithoutEpoch)))

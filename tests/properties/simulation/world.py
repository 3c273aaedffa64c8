"""One simulated world: clients, what stands in the middle, a server, and the faults of a seed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from epochgate.core import events, jsonrpc
from epochgate.core.policy import Stamps
from epochgate.core.session import Session
from tests.properties.simulation import arrivals, faults, oracle, traits
from tests.properties.simulation.calls import Post, Seen
from tests.properties.simulation.client import Client
from tests.properties.simulation.clock import Clock, Runaway
from tests.properties.simulation.connection import Connection, Log
from tests.properties.simulation.core import make_session
from tests.properties.simulation.exchange import Exchange
from tests.properties.simulation.faults import LAST_FAULT_S, Faults
from tests.properties.simulation.host import Crashed, Host, Middle
from tests.properties.simulation.relay import Relay
from tests.properties.simulation.server import Server
from tests.properties.simulation.splices import Violation
from tests.properties.simulation.strangers import Stranger
from tests.properties.simulation.trace import Trace
from tests.properties.simulation.upstream import Leg
from tests.properties.simulation.wire import Sink

Mode = Literal["core", "relay"]
LONGEST_S = 7000.0  # after the last fault: slow runs, and then the longest limit, 3,600 s of silence
LOOK_EVERY_S = 100.0
QUIET_S = 400.0  # once nothing is owed: longer than `hold` and `retain`
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
        self.policy = traits.draw_policy(rng)
        server_traits = traits.draw_server(rng)
        if self.policy.stamp is Stamps.OFF:  # nothing tells such messages apart then (R36)
            server_traits = replace(server_traits, leaks="no", strays=False)
        self.server = Server(server_traits, self.clock, self._rng("server"))
        self.clients = [self._client(n, rng) for n in range(rng.choice((1, 1, 2)))]
        self.stranger = Stranger(self, self._rng("stranger"))
        self.plan = faults.draw(self._rng("plan"))
        self.faults = Faults(self, self._rng("faults"))
        self.connections: list[Connection] = []
        self.exchanges: list[Exchange] = []
        self.hosts: list[Host] = []
        self._routes: dict[bytes, Host] = {}
        self.has_rested = False  # nothing was owed for so long that nothing may be kept
        self._net = self._rng("network")

    def _rng(self, purpose: str) -> Random:
        return Random(f"{self.seed}/{purpose}")

    def _client(self, number: int, rng: Random) -> Client:
        client = Client(
            f"c{number}", traits.draw_client(rng), self.clock, self._rng(f"client {number}"), self
        )
        client.has_expired_token = lambda: self.server.access.is_expired(client.token)
        return client

    def run(self) -> Outcome:
        for client in self.clients:
            client.start()
        self.faults.schedule(self.plan)
        for n in range(int(LAST_FAULT_S / NOTIFY_EVERY_S)):
            self.clock.after(n * NOTIFY_EVERY_S, self._notify)
        try:
            self._run_to_rest()
            violations = oracle.examine(self)
        except Runaway as runaway:
            violations = [Violation("G8", str(runaway))]
        except Crashed as crashed:
            violations = [Violation("crash", str(crashed))]
        return Outcome(self.seed, violations, self.trace, self._summary(), self.faults.done)

    def _run_to_rest(self) -> None:
        """Until nothing is owed any more, and then as long as anything may be kept."""
        self.clock.run(LAST_FAULT_S)
        while self.clock.now < LAST_FAULT_S + LONGEST_S:
            was_at_rest, count = self.is_at_rest, self._count()
            self.clock.run(self.clock.now + (QUIET_S if was_at_rest else LOOK_EVERY_S))
            self.has_rested = was_at_rest and self.is_at_rest and self._count() == count
            if self.has_rested:
                break

    @property
    def is_at_rest(self) -> bool:
        return all(post.is_settled or post.is_cancelled for post in self._posts())

    def _count(self) -> tuple[int, int]:
        """What was asked so far, and what of it runs in the proxy though nobody waits."""
        middles = [host.middle for host in self.hosts]
        return len(self._posts()), sum(one.running for one in middles if isinstance(one, Session))

    def _posts(self) -> list[Post]:
        return [post for client in self.clients for post in client.posts]

    def _notify(self) -> None:
        for session_id in list(self.server.sessions):
            self.server.notify(session_id)

    def _summary(self) -> str:
        clients = "\n".join(f"  {client.name} {client.traits}" for client in self.clients)
        policy = ", ".join(
            (
                f"reissue {self.policy.reissue.value}",
                f"loss {self.policy.session_loss.value}",
                f"stamp {self.policy.stamp.value}",
                f"poll {self.policy.poll_without_epoch.value}",
                f"away {self.policy.reissue_when_away}",
                f"never {sorted(self.policy.never_reissue)}",
            )
        )
        return f"  {self.server.traits}\n{clients}\n  policy: {policy}\n  {self.plan}"

    # --- what is seen ---------------------------------------------------------------------------

    def saw(self, client: Client, post: Post | None, seen: Seen) -> None:
        """A client took a message: the oracle looks at once."""
        for violation in arrivals.judge(self, client, post, seen):
            self.trace.wrong(self.clock.now, str(violation))

    def remark(self, text: str) -> None:
        if self.mode == "core":
            self.trace.wrong(self.clock.now, text)

    # --- the network ----------------------------------------------------------------------------

    def request(
        self, token: str, method: str, headers: dict[str, str], body: bytes, sink: Sink, delay: float = 0.0
    ) -> Exchange:
        """Send a client's request to the middle; it is there a moment later unless it is cut before."""
        exchange = Exchange(len(self.exchanges) + 1, token, self.clock, self._net, sink, self.trace)
        self.exchanges.append(exchange)
        pairs = tuple((name.encode(), value.encode()) for name, value in headers.items())
        head = events.RequestHead(TARGET, pairs, token.encode())
        delay += self._net.choice((0.0, 0.001, 0.02))
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
        host = (
            self._new_host(self._new_middle())
            if session_id is None
            else self._routes.get(session_id.encode())
        )
        if host is None or host.is_forgotten:
            exchange.open(404, ((b"content-type", b"text/plain"),))
            exchange.end()
            return
        exchange.host, exchange.arrived_at = host, self.clock.now
        host.exchanges[exchange.number] = exchange
        host.feed(_arrived(exchange.number, method, head, headers, body))

    def _new_host(self, middle: Middle) -> Host:
        host = Host(
            f"h{len(self.hosts)}",
            middle,
            self.clock,
            self._net,
            self.server,
            self.trace,
            self._connect,
            self._register,
            self._adopt,
        )
        self.hosts.append(host)
        return host

    def _adopt(self, middle: Middle, exchange: Exchange) -> None:
        """A session that began inside another one gets a host, and the exchange that began it."""
        older, host = exchange.host, self._new_host(middle)
        assert older is not None
        del older.exchanges[exchange.number]
        exchange.host = host
        host.exchanges[exchange.number] = exchange
        session_id = middle.current.upstream_id if isinstance(middle, Session) else b""
        host.trespass.take(older.trespass, session_id.decode(), exchange.token)
        host.feed(events.Adopted())

    def _new_middle(self) -> Middle:
        if self.mode == "relay":
            return Relay()
        return make_session(self.policy, self._rng(f"entropy {len(self.hosts)}"), self._is_taken)

    def _is_taken(self, visible_id: bytes) -> bool:
        host = self._routes.get(visible_id)
        return host is not None and not host.is_forgotten

    def _register(self, visible_id: bytes, host: Host) -> None:
        self._routes[visible_id] = host

    def _connect(self, leg: Leg) -> Connection:
        trespass = leg.host.trespass
        connection = Connection(len(self.connections) + 1, self.clock, self._net, leg, self.log, trespass)
        connection.sent_at, connection.is_get = leg.sent_at, leg.command.method == b"GET"
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

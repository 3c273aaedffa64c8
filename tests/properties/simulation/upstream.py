"""The proxy's side of one upstream exchange; it turns what arrives into events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import commands, events
from tests.properties.simulation.connection import Connection
from tests.properties.simulation.wire import Pairs

if TYPE_CHECKING:
    from tests.properties.simulation.host import Host


class Leg:
    """One upstream exchange, until it ends or the proxy hangs up."""

    def __init__(self, host: Host, command: commands.SendUpstream) -> None:
        self.host, self.command = host, command
        self.sent_at = host.clock.now
        self.is_over = False
        self.is_hung_up = False  # by the proxy: what is on its way does not arrive any more
        self.is_answered = False
        self.connection: Connection | None = None

    def head(self, status: int, headers: Pairs) -> None:
        self.is_answered = True
        self._tell(events.LegAnswered(self.command.leg, status, headers))

    def data(self, data: bytes) -> None:
        self._tell(events.LegRead(self.command.leg, data))

    def whole(self, status: int, headers: Pairs, data: bytes) -> None:
        """The answer came in one read, with its end."""
        self.is_answered = True
        self._tell(events.LegCompleted(self.command.leg, status, headers, data))
        self.is_over = True

    def ended(self, is_clean: bool) -> None:
        self.fail(events.LegEnd.CLEAN if is_clean else events.LegEnd.BROKEN)

    def fail(self, end: events.LegEnd) -> None:
        if self.is_over:
            return
        self._tell(events.LegEnded(self.command.leg, end))
        self.is_over = True

    def give_up(self) -> None:
        """The limit for the answer's headers has passed."""
        if not self.is_answered and not self.is_over:
            self.fail(events.LegEnd.SILENT)
            self.hang_up()

    def hang_up(self) -> None:
        self.is_over = self.is_hung_up = True
        if self.connection is not None and self.connection.is_open:
            self.connection.disconnected()

    def _tell(self, event: events.Event) -> None:
        if not self.is_over:
            self.host.feed(event)

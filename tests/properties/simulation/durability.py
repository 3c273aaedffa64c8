"""R16 seen from outside: no POST goes up before the record of it, or of its re-issue, is durable."""

from __future__ import annotations

import re
from collections import Counter

from epochgate.core import commands
from epochgate.core.records import OwedRecord, ReissueRecord
from tests.properties.simulation.payload import Json

_KEY = re.compile(rb'"key": ?"([^"]+)"')


class Durability:
    """Told of every `Persist`, `Persisted` and `SendUpstream` of a session, in order."""

    def __init__(self) -> None:
        self._keys: dict[int, list[str]] = {}  # stream handle -> keys of its calls
        self._pending: dict[int, list[str]] = {}  # token -> keys of the calls
        self._durable: Counter[str] = Counter()  # how many records of a call are durable
        self._sent: dict[str, set[object]] = {}  # key -> the ids that it was sent under

    def asked(self, command: commands.Persist) -> None:
        record = command.record
        if isinstance(record, OwedRecord):
            self._keys[record.stream] = [key.decode() for key in _KEY.findall(record.body)]
        elif isinstance(record, ReissueRecord) and record.stream in self._keys:
            self._keys[record.successor] = self._keys[record.stream]
        else:
            return
        self._pending[command.token] = self._keys[record.stream]

    def persisted(self, token: int) -> None:
        self._durable.update(self._pending.pop(token, ()))

    def find_wrong(self, calls: list[Json]) -> str | None:
        """What is wrong with sending these calls now, or None. Each run has its own id and record."""
        for call in calls:
            key = call["params"]["arguments"]["key"]
            ids = self._sent.setdefault(key, set())
            ids.add(call["id"])
            if len(ids) > self._durable[key]:
                return f"R16: {key} went up before its record was durable"
        return None

"""R16 seen from outside: no POST goes up before the record of it, or of its re-issue, is durable."""

from __future__ import annotations

import re

from epochgate.core import commands
from epochgate.core.records import OwedRecord, ReissueRecord

_ID = re.compile(rb'"id": ?("[^"]+"|\d+)')
_KEY = re.compile(rb'"key": ?"([^"]+)"')


class Durability:
    """Told of every `Persist`, `Persisted` and `SendUpstream` of a session, in order."""

    def __init__(self) -> None:
        self._keys: dict[int, bytes] = {}  # stream handle -> key of the call
        self._pending: dict[int, bytes] = {}  # token -> key of the call
        self._durable: list[bytes] = []  # the key of every durable record
        self._sent: dict[bytes, set[bytes]] = {}  # key -> the ids that it was sent under

    def asked(self, command: commands.Persist) -> None:
        record = command.record
        if isinstance(record, OwedRecord):
            key = _KEY.search(record.body)
            if key is None:
                return
            self._keys[record.stream] = key[1]
        elif isinstance(record, ReissueRecord) and record.stream in self._keys:
            self._keys[record.successor] = self._keys[record.stream]
        else:
            return
        self._pending[command.token] = self._keys[record.stream]

    def persisted(self, token: int) -> None:
        key = self._pending.pop(token, None)
        if key is not None:
            self._durable.append(key)

    def find_wrong(self, command: commands.SendUpstream) -> str | None:
        """What is wrong with sending this now, or None. Each run has an id, and a record, of its own."""
        key, request_id = _KEY.search(command.body or b""), _ID.search(command.body or b"")
        if key is None or request_id is None:
            return None
        ids = self._sent.setdefault(key[1], set())
        ids.add(request_id[1])
        if len(ids) <= self._durable.count(key[1]):
            return None
        return f"R16: {key[1].decode()} went up before its record was durable"

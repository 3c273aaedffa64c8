"""Faults of the machine itself, and the JSON-RPC error codes that the proxy answers with."""

from __future__ import annotations

OUTCOME_UNKNOWN = -32050  # the request may have run; it was not sent again (design, section 9)
SESSION_NOT_RESTORED = -32051  # the upstream session could not be re-established
LIMIT_REACHED = -32052  # a limit of the proxy; the request was not sent


class ImpossibleTransition(AssertionError):
    """An event came in a state whose table has no cell for it: a fault of ours."""

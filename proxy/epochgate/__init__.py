"""epochgate: a proxy that never lets a resumed MCP stream splice two sessions.

Importing the package gives the rule for client authors and needs nothing but the standard library.
"""

from __future__ import annotations

from epochgate.core.library import (
    SessionEpoch,
    StreamResumeDivergence,
    resume_or_restart,
    validate_resumed_event,
)

__all__ = ["SessionEpoch", "StreamResumeDivergence", "resume_or_restart", "validate_resumed_event"]
__version__ = "0.1.0"

"""Every number and choice the core obeys, with its default. `settings.py` is their outside form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

KIB = 1024
MIB = 1024 * KIB


class Reissue(Enum):
    """Which requests of unknown outcome are sent again (design, section 9)."""

    ALWAYS = "always"
    UNLESS_DESTRUCTIVE = "unless-destructive"
    HINTED = "hinted"
    READS = "reads"
    NEVER = "never"


class SessionLoss(Enum):
    """What a 404 on an ordinary POST leads to (R21)."""

    AUTO = "auto"
    HEAL = "heal"
    SURFACE = "surface"


class PollWithoutEpoch(Enum):
    """What an announced server-side poll of a server without epochs leads to (R4)."""

    ACCEPT = "accept"
    PRIMED = "primed"  # also where `retry:` stood only in the stream's first event, as official SDKs write it
    RESTART = "restart"


class Stamps(Enum):
    """The values that stand for JSON-RPC ids upstream (R36)."""

    ON = "on"
    INTS_31 = "ints_31"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds for times (`_s`), bytes for sizes (`_bytes`), counts otherwise."""

    # time
    hold_s: float = 300.0
    retain_s: float = 60.0
    resume_deadline_s: float = 10.0
    resume_headers_s: float = 5.0
    heal_deadline_s: float = 45.0
    silence_s: float = 60.0
    ping_s: float = 10.0
    max_silence_s: float = 3600.0
    keepalive_s: float = 20.0
    poll_grace_s: float = 30.0
    cancel_grace_s: float = 5.0
    takeover_interval_s: float = 5.0
    session_idle_s: float = 3600.0

    # size
    max_event_bytes: int = 8 * MIB
    max_json_buffer_bytes: int = 1 * MIB
    max_reissue_bytes: int = 1 * MIB
    journal_stream_bytes: int = 16 * MIB
    journal_session_bytes: int = 64 * MIB

    # count
    max_streams: int = 128
    max_tombstones: int = 1024
    max_reissues: int = 1
    max_not_run_reissues: int = 2
    max_resumes_without_message: int = 3
    max_heals_per_minute: int = 3

    # choice
    reissue: Reissue = Reissue.UNLESS_DESTRUCTIVE
    reissue_when_away: bool = False
    session_loss: SessionLoss = SessionLoss.AUTO
    poll_without_epoch: PollWithoutEpoch = PollWithoutEpoch.ACCEPT
    stamp: Stamps = Stamps.ON
    advertise_epoch: bool = False
    never_reissue: frozenset[str] = frozenset()
    safe_tools: frozenset[str] = frozenset()
    stateless_tools: frozenset[str] = frozenset()
    replay_tools: tuple[str, ...] = ()
    undo_tools: tuple[tuple[str, str], ...] = ()  # the undo of a replayed tool, and that tool
    credential_headers: tuple[bytes, ...] = (b"x-api-key", b"api-key")
    epoch_keys: tuple[str, ...] = ("session_epoch",)
    epoch_header: bytes = b"mcp-session-epoch"
    gone_pattern: str = "session"

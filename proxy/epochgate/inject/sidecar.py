"""The container that is added, and the numbers that the rest of the pod has to agree with."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from epochgate import __version__
from epochgate.limits import Limits
from epochgate.loading import load

NAME = "epochgate"
ANNOTATION = "epochgate.dev/inject"
IMAGE = f"epochgate:{__version__}"
TRAFFIC_PORT = 8808
ADMIN_PORT = 8809
HEALTH_PORT = 8810
PORTS = (TRAFFIC_PORT, ADMIN_PORT, HEALTH_PORT)

# What the kubelet needs behind a drain to end the process, and what is given on top where we choose.
_TO_SPARE_S = 10
_AT_EASE_S = 20


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What is added everywhere in one run.

    `variables` are those of the container besides the addresses; from them follow `drain_s`, for which the
    server has to stay while the proxy drains, and the memory.
    """

    image: str
    variables: Mapping[str, str]
    drain_s: int
    memory: Memory

    def container(self, port: int, taken: Collection[str] = ()) -> dict[str, Any]:
        """The native sidecar in front of a server that listens on `port` of the same pod.

        `taken` are the names that ports of the pod have already: the sidecar's stay without them.
        """
        variables = {
            "EPOCHGATE_UPSTREAM": f"http://127.0.0.1:{port}",
            "EPOCHGATE_LISTEN": f"0.0.0.0:{TRAFFIC_PORT}",
            "EPOCHGATE_HEALTH": f"0.0.0.0:{HEALTH_PORT}",
            "EPOCHGATE_UNKNOWN_SESSIONS": "refuse",  # those of the pod before: a server may take any id
            **self.variables,
        }
        return {
            "name": NAME,
            "image": self.image,
            "restartPolicy": "Always",
            "env": [{"name": name, "value": value} for name, value in variables.items()],
            "ports": [
                {**({} if name in taken else {"name": name}), "containerPort": number}
                for name, number in (("mcp", TRAFFIC_PORT), ("health", HEALTH_PORT))
            ],
            "startupProbe": _probe("/startupz", period_s=1, timeout_s=3, failures=60),
            "livenessProbe": _probe("/livez", period_s=10, timeout_s=5, failures=3),
            "readinessProbe": _probe("/readyz", period_s=5, timeout_s=3, failures=2),
            "lifecycle": {"preStop": {"exec": {"command": [NAME, "drain"]}}},
            "resources": {
                "requests": {"cpu": "100m", "memory": f"{self.memory.request_mib}Mi"},
                "limits": {"memory": f"{self.memory.limit_mib}Mi"},
            },
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }

    def pre_stop(self) -> dict[str, Any]:
        """Keeps the server alive while the answers that it owes are passed on."""
        return {"sleep": {"seconds": self.drain_s}}

    def least_grace_s(self, sleep_s: int = 0) -> int:
        """What a grace period must be at least, with a server that sleeps for `sleep_s`."""
        return max(self.drain_s, sleep_s) + _TO_SPARE_S

    def good_grace_s(self, sleep_s: int = 0) -> int:
        return max(self.drain_s, sleep_s) + _AT_EASE_S


class Memory(NamedTuple):
    """What the sidecar asks for, and what it is killed above."""

    request_mib: int
    limit_mib: int


def sidecar(image: str = IMAGE, variables: Mapping[str, str] | None = None) -> Sidecar:
    """Raises `BadSettings` for variables that `epochgate run` would not take."""
    given = dict(variables or {})
    limits = load({}, {"EPOCHGATE_UPSTREAM": "http://127.0.0.1:8000", **given})
    return Sidecar(image, given, max(1, math.ceil(limits.drain)), _memory(limits))


def _memory(limits: Limits) -> Memory:
    """64 MiB for the process; 48 KiB for each of `max_sessions`, 8 KiB for each of 10,000 answers that are
    kept, twice `journal_total`, and the largest body and buffer for 8 requests at a time. A quarter of what
    may come is requested at once. The chart's values have the same numbers."""
    may_come = (
        (limits.max_sessions * 48 + 10_000 * 8) * 2**10
        + 2 * limits.journal_total
        + 8 * (limits.max_body + limits.write_buffer)
    ) / 2**20
    return Memory(math.ceil(64 + may_come / 4), math.ceil(64 + may_come))


def _probe(path: str, *, period_s: int, timeout_s: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": HEALTH_PORT},
        "periodSeconds": period_s,
        "timeoutSeconds": timeout_s,
        "failureThreshold": failures,
    }

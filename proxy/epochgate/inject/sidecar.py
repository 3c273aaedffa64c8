"""The container that is added, and the numbers that the rest of the pod has to agree with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    server has to stay while the proxy drains, and the memory that the proxy may use.
    """

    image: str
    variables: Mapping[str, str]
    drain_s: int
    memory_mib: int

    def container(self, port: int) -> dict[str, Any]:
        """The native sidecar in front of a server that listens on `port` of the same pod."""
        variables = {
            "EPOCHGATE_UPSTREAM": f"http://127.0.0.1:{port}",
            "EPOCHGATE_LISTEN": f":{TRAFFIC_PORT}",
            "EPOCHGATE_HEALTH": f":{HEALTH_PORT}",
            **self.variables,
        }
        return {
            "name": NAME,
            "image": self.image,
            "restartPolicy": "Always",
            "env": [{"name": name, "value": value} for name, value in variables.items()],
            "ports": [
                {"name": NAME, "containerPort": TRAFFIC_PORT},
                {"name": f"{NAME}-probe", "containerPort": HEALTH_PORT},
            ],
            "startupProbe": {**_probe("/startupz"), "periodSeconds": 1, "failureThreshold": 60},
            "livenessProbe": _probe("/livez"),
            "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5},
            "lifecycle": {"preStop": {"exec": {"command": [NAME, "drain"]}}},
            "resources": {
                "requests": {"cpu": "50m", "memory": "128Mi"},
                "limits": {"memory": f"{self.memory_mib}Mi"},
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


def sidecar(image: str = IMAGE, variables: Mapping[str, str] | None = None) -> Sidecar:
    """Raises `BadSettings` for variables that `epochgate run` would not take."""
    given = dict(variables or {})
    limits = load({}, {"EPOCHGATE_UPSTREAM": "http://127.0.0.1:8000", **given})
    return Sidecar(image, given, math.ceil(limits.drain), memory_mib(limits))


def memory_mib(limits: Limits) -> int:
    """128 MiB for the process, `journal_total`, and 32 KiB for each of `max_sessions`; in steps of 64 MiB."""
    needed = 128 + limits.journal_total / 2**20 + limits.max_sessions / 32
    return math.ceil(needed / 64) * 64


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": HEALTH_PORT}}

"""Helm 3 for the oldest release of Kubernetes, Helm 4 for the newest that the API's schemas know."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helm.charts import Engine, Helm, ask
from tests.peers.install import Peers, ensure


@pytest.fixture(scope="session")
def peers() -> Peers:
    return ensure()


@pytest.fixture(scope="session")
def newest(peers: Peers) -> str:
    """The newest release of Kubernetes there are schemas of, as `1.37`."""
    found: str = ask(peers, ["newest"])
    return found


@pytest.fixture(scope="session")
def helm(peers: Peers) -> Iterator[Engine]:
    """Helm's engine, which most tests go by; test_valid.py shows that the programs make the same of it."""
    engine = Engine(peers)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def helms(peers: Peers, newest: str) -> tuple[Helm, ...]:
    """Each Helm with the releases of Kubernetes that it is to render for."""
    old, new = peers.kubectl_31 / "helm", peers.kubectl_37 / "helm"
    return Helm(old, "1.30"), Helm(new, "1.33"), Helm(new, newest)

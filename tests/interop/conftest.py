"""The peers are installed once for the run; each test gets an empty stage."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.interop.stage import Stage
from tests.interop.surroundings import Surroundings
from tests.peers.install import Peers, ensure


@pytest.fixture(scope="session")
def peers() -> Peers:
    return ensure()


@pytest.fixture
async def stage(peers: Peers) -> AsyncIterator[Stage]:
    stage = Stage(peers)
    yield stage
    await stage.clear()


@pytest.fixture
async def around(peers: Peers) -> AsyncIterator[Surroundings]:
    around = Surroundings(peers)
    yield around
    await around.clear()

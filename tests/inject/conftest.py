"""The tools of operators are installed once for the run."""

from __future__ import annotations

import pytest

from tests.peers.install import Peers, ensure


@pytest.fixture(scope="session")
def peers() -> Peers:
    return ensure()

"""What all tests of the package share: the tools, the wheel, and an installation of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import IS_LONG
from tests.deploy.packaging import built_wheel, open_folder
from tests.deploy.sandbox import Installed, installed
from tests.peers.install import Peers, ensure

collect_ignore = [] if IS_LONG else ["test_image.py"]


@pytest.fixture(scope="session")
def peers() -> Peers:
    return ensure()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def epochgate(peers: Peers, wheel: Path) -> Iterator[Installed]:
    """The wheel and the pinned packages, and nothing else, for the system's Python."""
    with open_folder() as folder:
        yield installed(wheel, peers, folder)

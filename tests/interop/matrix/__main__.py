"""Runs the matrix and writes docs/interop.md; exits with 1 if a promise was broken in a cell."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from epochgate import __version__
from tests.interop.matrix.peers import CLIENTS, SERVERS
from tests.interop.matrix.report import PAGE, page
from tests.interop.matrix.run import play_all
from tests.peers.install import ensure


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.matrix", description=__doc__)
    parser.add_argument("--clients", nargs="*", default=[client.kind for client in CLIENTS])
    parser.add_argument("--servers", nargs="*", default=[server.kind for server in SERVERS])
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--json", type=Path, help="where to write the results as JSON too")
    options = parser.parse_args()
    pairs = [
        (client, server)
        for client in CLIENTS
        for server in SERVERS
        if client.kind in options.clients and server.kind in options.servers
    ]
    when, began = datetime.now(UTC), time.monotonic()
    results = asyncio.run(play_all(ensure(), pairs))
    options.page.write_text(page(results, when, __version__))
    if options.json:
        plain = [{**asdict(result), "cell": result.cell} for result in results]
        options.json.write_text(json.dumps(plain, indent=1, default=lambda member: member.value))
    broken = [result for result in results if result.complaint]
    print(f"{len(results)} cells in {time.monotonic() - began:.0f} s: {options.page}")
    for result in broken:
        print(f"{result.complaint}: {result}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

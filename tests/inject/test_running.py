"""The container that is added, run as a kubelet would: its variables, probes and preStop fit each other."""

from __future__ import annotations

import json
import subprocess
import sys

from epochgate.inject.sidecar import sidecar
from tests.peers.install import Peers

# Runs in a network of its own, where the ports are free: starts the container's process, asks what its probes
# ask, runs its preStop, and ends it.
PLAY = """
import json, os, signal, subprocess, sys, urllib.error, urllib.request
container = json.load(sys.stdin)
program = [sys.executable, "-m", "epochgate"]
environ = {**os.environ, **{one["name"]: one["value"] for one in container["env"]}}
process = subprocess.Popen([*program, "run"], env=environ, stderr=subprocess.PIPE, text=True)
next(line for line in process.stderr if '"listening"' in line)
told = {}
for name in ("startupProbe", "livenessProbe", "readinessProbe"):
    asked = container[name]["httpGet"]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{asked['port']}{asked['path']}", timeout=5) as answer:
            told[name] = answer.status
    except urllib.error.HTTPError as error:
        told[name] = error.code
command = container["lifecycle"]["preStop"]["exec"]["command"]
told["preStop"] = subprocess.run([*program, *command[1:]], env=environ, timeout=30).returncode
process.send_signal(signal.SIGTERM)
process.communicate(timeout=30)
told["exit"] = process.returncode
print(json.dumps(told))
"""


def test_the_container_starts_answers_its_probes_and_drains(peers: Peers) -> None:
    container = sidecar(variables={"EPOCHGATE_DRAIN_DELAY": "0s"}).container(8000)
    alone = [str(peers.bwrap), "--dev-bind", "/", "/", "--unshare-net", "--unshare-pid", "--die-with-parent"]

    ran = subprocess.run(
        [*alone, sys.executable, "-c", PLAY],
        input=json.dumps(container),
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )

    # No server is there yet: the pod is not ready, and starts all the same.
    assert json.loads(ran.stdout) == {
        "startupProbe": 200,
        "livenessProbe": 200,
        "readinessProbe": 503,
        "preStop": 0,
        "exit": 0,
    }

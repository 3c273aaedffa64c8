"""The dashboard is one for Grafana, and a person finds in it what it is for."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from itertools import combinations
from pathlib import Path

from tests.deploy.prometheus.reading import Json, alerts, dashboard, panels, targets
from tests.peers.install import Peers

TYPES = Path(__file__).with_name("dashboard.ts")
STRICT = "--noEmit --strict --skipLibCheck --module esnext --moduleResolution bundler --target es2022"


def told_wrong(peers: Peers, folder: Path, *declared: Json) -> dict[int, str]:
    """What the type checker says of each as a literal of Grafana's own types; of right ones nothing."""
    (folder / "node_modules").symlink_to(peers.grafana / "node_modules")
    types = TYPES.read_text()
    lines = [f"const d{at}: Declared = {json.dumps(one)};\n" for at, one in enumerate(declared)]
    (folder / "dashboard.ts").write_text(types + "".join(lines))
    tsc = peers.grafana / "node_modules" / "typescript" / "bin" / "tsc"
    command = [str(peers.node_22), str(tsc), *STRICT.split(), "dashboard.ts"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    told = {
        int(line) - types.count("\n") - 1: text
        for line, text in re.findall(r"(?m)^dashboard\.ts\((\d+),\d+\): (.*(?:\n  .*)*)", done.stdout)
    }
    assert (done.returncode != 0) == bool(told), done.stdout
    return told


def test_it_is_of_grafanas_types(peers: Peers, tmp_path: Path) -> None:
    assert told_wrong(peers, tmp_path, dashboard()) == {}


def test_a_mistake_at_any_depth_is_told(peers: Peers, tmp_path: Path) -> None:
    """The types are no formality."""
    mistakes: list[tuple[list[str | int], object]] = [
        (["refesh"], "30s"),
        (["graphTooltip"], 7),
        (["panels", 1, "gridPosition"], {"h": 4}),
        (["panels", 1, "description"], None),
        (["panels", 2, "options", "colorMode"], "loud"),
        (["panels", 2, "type"], "number"),
        (["panels", 3, "targets", 0, "query"], "up"),
        (["panels", 12, "fieldConfig", "defaults", "custom", "drawStyle"], "lines"),
        (["panels", 4, "fieldConfig", "defaults", "thresholds", "mode"], "relative"),
        (["templating", "list", 1, "type"], "queries"),
        (["annotations", "list", 0, "expression"], "up"),
    ]
    told = told_wrong(peers, tmp_path, *(_with(*mistake) for mistake in mistakes))

    for at, (path, _) in enumerate(mistakes):
        assert at in told, path


def _with(path: list[str | int], value: object) -> Json:
    """The dashboard with another value there."""
    made = copy.deepcopy(dashboard())
    place: object = made
    for step in path[:-1]:
        place = place[step]  # type: ignore[index]  # JSON of any shape
    place[path[-1]] = value  # type: ignore[index]
    return made


def test_its_rows_are_the_questions_of_an_operator() -> None:
    assert [panel["title"] for panel in dashboard()["panels"] if panel["type"] == "row"] == [
        "Now",
        "What the last deploy did to sessions in flight (in the time range)",
        "What safety cost (in the time range)",
        "What nothing proves, and faults of the server (15 minutes, as the alerts see it)",
        "Traffic",
        "The processes",
    ]


def test_each_panel_says_what_it_shows_and_in_what_unit() -> None:
    for panel in panels():
        assert len(panel["description"]) > 5, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        several = len(panel["targets"]) > 1
        assert not several or all(one["legendFormat"] != "__auto" for one in panel["targets"])
    titles = [panel["title"] for panel in panels()]
    assert len(titles) == len(set(titles))


def test_each_query_is_of_the_processes_that_were_chosen() -> None:
    ours = 'namespace=~"$namespace", job=~"$job", pod=~"$pod", instance=~"$instance"'
    for where, target in targets():
        series = re.findall(r"\b(?:epochgate_|process_|instance:|ALERTS)[\w:]*(\{[^}]*\})?", target["expr"])
        assert series, where
        assert all(ours in matchers for matchers in series), where
    variables = [one["name"] for one in dashboard()["templating"]["list"]]
    assert variables == ["datasource", "namespace", "job", "pod", "instance"]


def test_no_panel_lies_over_another() -> None:
    for one, other in combinations((panel["gridPos"] for panel in dashboard()["panels"]), 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_below
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in dashboard()["panels"])


def test_deploys_are_marked_when_processes_began() -> None:
    began, _ = dashboard()["annotations"]["list"]
    assert began["useValueForTime"]
    assert began["target"]["expr"].startswith("1000 * process_start_time_seconds{")


def test_the_lines_of_the_panels_are_those_of_the_alerts() -> None:
    """A share that has a line in a panel is compared with the same number in an alert."""
    asked = " ".join(rule["expr"] for rule in alerts())
    drawn = 0
    for panel in panels():
        if "thresholdsStyle" in panel["fieldConfig"]["defaults"]["custom"]:
            (target,) = panel["targets"]
            line = panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"]
            assert f"{target['expr'].partition('{')[0]} > {line}" in asked, panel["title"]
            drawn += 1
    assert drawn == 5

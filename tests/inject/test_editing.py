"""How text is edited: where lines go, what stays, and which layouts are refused."""

from __future__ import annotations

import pytest

from epochgate.inject.editing import Editor
from epochgate.inject.nodes import Mapping, Refused, entry
from epochgate.inject.reading import read
from tests.inject.samples import (
    BOTH,
    DEPLOYMENT,
    POD,
    PORTS,
    SERVER,
    SERVICE,
    asked,
    plan_of,
    refused,
    result_of,
    said,
    with_lines,
)

PRE_STOP = "          lifecycle:\n            preStop:\n              sleep:\n                seconds: 25\n"


def around_the_sidecar(text: str) -> str:
    """The result with the sidecar's lines taken out, whatever their indent."""
    kept, column = [], -1
    for line in result_of(text).splitlines(keepends=True):
        indent = len(line) - len(line.lstrip(" -"))
        if line.lstrip(" -").rstrip() == "name: epochgate":
            column = indent
            kept.append(line[: line.index("name")] + "EPOCHGATE\n")
        elif column < 0 or indent < column:
            column = -1
            kept.append(line)
    return "".join(kept)


def test_what_is_added_stands_behind_the_ports_and_behind_the_containers() -> None:
    assert around_the_sidecar(DEPLOYMENT) == (
        DEPLOYMENT
        + PRE_STOP
        + "      initContainers:\n        - EPOCHGATE\n      terminationGracePeriodSeconds: 45\n"
    )


def test_comments_stay_with_what_they_are_about() -> None:
    text = DEPLOYMENT + (
        "            # - containerPort: 9090\n"
        "          # resources: {}\n"
        "        # - name: second\n"
        "\n"
        "      # volumes:\n"
        "# the end\n"
    )

    assert around_the_sidecar(text) == DEPLOYMENT + (
        "            # - containerPort: 9090\n" + PRE_STOP + "          # resources: {}\n"
        "        # - name: second\n"
        "      initContainers:\n        - EPOCHGATE\n      terminationGracePeriodSeconds: 45\n"
        "\n"
        "      # volumes:\n"
        "# the end\n"
    )


def test_an_item_goes_behind_the_last_one_where_its_dash_stands() -> None:
    own = "      initContainers:\n      -   name: first\n          image: b  # c\n"
    text = with_lines(DEPLOYMENT, POD, own.removesuffix("\n"))

    assert f"{own}      - EPOCHGATE\n      containers:\n" in around_the_sidecar(text)


def test_indents_are_those_of_the_file() -> None:
    text = DEPLOYMENT.replace("        - name: server", "      -    name: server").replace(
        "          ", "           "
    )

    edited = result_of(text)

    assert "      initContainers:\n      -    name: epochgate\n           image: epochgate:" in edited
    assert "           env:\n           -    name: EPOCHGATE_UPSTREAM\n                value: http" in edited


def test_a_block_of_text_that_ends_an_item_keeps_its_last_lines() -> None:
    own = "      initContainers:\n        - name: a\n          args:\n            - |+\n              x\n\n"
    text = with_lines(DEPLOYMENT, POD, own.removesuffix("\n"))

    assert f"{own}        - EPOCHGATE\n" in around_the_sidecar(text)


@pytest.mark.parametrize(
    "empty", ["initContainers: []", "initContainers: null", "initContainers: ~", "initContainers:"]
)
def test_an_empty_list_is_filled(empty: str) -> None:
    text = with_lines(DEPLOYMENT, POD, f"      {empty}  # none yet")

    assert (
        "      initContainers:  # none yet\n        - EPOCHGATE\n      containers:\n"
        in around_the_sidecar(text)
    )


def test_an_empty_value_in_a_line_of_its_own_gives_way() -> None:
    text = with_lines(DEPLOYMENT, SERVER, "          lifecycle:\n            {}\n          tty: true")

    assert f"{SERVER}\n{PRE_STOP}          tty: true\n" in result_of(text)


def test_a_lifecycle_without_pre_stop_gets_one() -> None:
    own = "          lifecycle:\n            postStart:\n              exec: {command: [a]}\n"
    text = with_lines(DEPLOYMENT, SERVER, own.removesuffix("\n"))

    assert f"{own}            preStop:\n              sleep:\n                seconds: 25\n" in result_of(
        text
    )


def test_braces_take_what_goes_into_braces() -> None:
    text = with_lines(DEPLOYMENT, SERVER, "          lifecycle: {postStart: {exec: {command: [a]}}} # b")

    assert (
        'lifecycle: {postStart: {exec: {command: [a]}}, "preStop": {"sleep": {"seconds": 25}}} # b\n'
        in result_of(text)
    )


def test_a_port_without_target_gets_one() -> None:
    text = DEPLOYMENT + SERVICE.replace("port: 80\n      targetPort: 8000\n", "port: 8000\n")

    assert result_of(text).endswith("    - port: 8000\n      targetPort: 8808\n")


@pytest.mark.parametrize("target", ["8000", "'8000'", '"http"', "http   ", "!!int 8000", "&only 8000"])
def test_a_target_port_becomes_a_number_and_its_comment_stays(target: str) -> None:
    text = with_lines(BOTH, PORTS, "              name: http").replace(
        "targetPort: 8000", f"targetPort: {target} # c"
    )

    assert result_of(text).endswith(f"targetPort: 8808{'   ' if '   ' in target else ''} # c\n")


def test_only_ports_that_lead_to_the_server_change() -> None:
    more = "    - {port: 9090, targetPort: 9090}\n    - {port: 53, targetPort: 8000, protocol: UDP}\n"

    assert result_of(BOTH + more).endswith(f"      targetPort: 8808\n{more}")


# --- aliases ------------------------------------------------------------------------------------------------


def test_an_alias_as_target_port_is_replaced_where_it_stands() -> None:
    text = BOTH.replace("port: 80\n", "port: &port 8000\n").replace("targetPort: 8000", "targetPort: *port")

    assert result_of(text).endswith("port: &port 8000\n      targetPort: 8808\n")


def test_what_an_alias_shares_is_not_edited() -> None:
    shared = DEPLOYMENT.replace("  template:", "  template: &pods").replace("\n", "\n  ").rstrip(" ")
    second = "- {apiVersion: apps/v1, kind: Deployment, metadata: {name: b}, spec: {template: *pods}}\n"
    text = f"apiVersion: v1\nkind: List\nitems:\n- {shared}{second}"

    lines = said(text, asked(workloads=("weather",)))

    assert lines[-1] == refused(
        11, "`&pods` is also what line 20 names, and would change there too: write it out"
    )


def test_a_number_that_is_used_elsewhere_is_not_changed() -> None:
    text = with_lines(BOTH, "      targetPort: 8000", "      nodePort: *port").replace(
        "targetPort: 8000", "targetPort: &port 8000"
    )

    assert said(text) == [
        refused(
            26,
            "`&port` is also what line 27 names, and would change there too: write it out",
            "Service/weather",
        )
    ]


def test_a_target_port_that_comes_by_a_merge_is_not_written_over() -> None:
    text = BOTH.replace(
        "    - port: 80\n      targetPort: 8000\n", "    - <<: {targetPort: 8000}\n      port: 80\n"
    )

    assert said(text) == [refused(25, "targetPort comes by `<<`: write 8808 yourself", "Service/weather")]


def test_what_comes_by_a_merge_is_not_written_over() -> None:
    text = BOTH.replace(POD, "    spec:\n      <<: *base").replace(
        "metadata:\n  name: weather\nspec:\n  selector:\n    m",
        "metadata:\n  name: weather\n  x: &base {initContainers: }\nspec:\n  selector:\n    m",
    )

    assert said(text) == [refused(5, "`initContainers` comes by `<<`: write it out where it is taken from")]


# --- what cannot be read -----------------------------------------------------------------------------------


def test_an_edit_that_would_mean_something_else_is_refused() -> None:
    (root,) = read("a: 1\nb: 2\n")
    editor = Editor("b: 2\na: 1\n", [root])  # not the text that the nodes are of
    held = entry(root, "b")
    assert isinstance(root, Mapping)
    assert held is not None
    editor.change(root, held, 3)

    with pytest.raises(Refused, match="this layout cannot be edited safely"):
        editor.result()


def test_nothing_in_braces_has_no_place_to_go_into() -> None:
    text = DEPLOYMENT.split("      containers:")[0] + (
        "      containers: [{name: server, image: b, ports: [{containerPort: 8000}], lifecycle: }]\n"
    )

    assert said(text)[-1] == refused(12, "`lifecycle` is empty here: remove it")


@pytest.mark.parametrize(
    "text",
    [
        DEPLOYMENT.replace("      containers:", "      ? containers\n      :"),
        BOTH.replace("\n", "\x85"),
        BOTH.replace("\n", "\r"),
    ],
    ids=["explicit keys", "line breaks of EBCDIC", "line breaks of old Macs"],
)
def test_a_layout_that_would_come_out_wrong_is_refused(text: str) -> None:
    plan = plan_of(text)

    assert plan.is_refused
    assert plan.texts == [text]
    assert plan.findings[-1].text == "this layout cannot be edited safely: write it in lines, as kubectl does"

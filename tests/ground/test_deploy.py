"""Compose files and Kubernetes manifests: they fit their schemas, and say what the code knows."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest
import typer
import yaml

from tests.ground.repository import ROOT, pyproject
from toast.cli import app
from toast.service.__main__ import parser

DEPLOY = ROOT / "deploy"
COMPOSE = ("compose.yaml", "compose.several.yaml")
MANIFESTS = [
    one for one in yaml.safe_load_all((DEPLOY / "kubernetes/toast.yaml").read_text()) if one
]
OLDEST = "1.31"
"""Of the versions of Kubernetes that are still mended."""
COMMANDS = typer.main.get_group(app).commands


def compose(name: str) -> dict[str, Any]:
    found = yaml.safe_load((DEPLOY / name).read_text())
    assert isinstance(found, dict)
    return found


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [one for one in MANIFESTS if one["kind"] == kind]
    return dict(found)


def flags(command: Any) -> set[str]:
    """The flags in a command of `toast serve`."""
    text = command if isinstance(command, str) else " ".join(command)
    return set(re.findall(r"--[a-z-]+", text))


def served() -> list[Any]:
    """Every `toast serve` that is written in these files."""
    services = [service for name in COMPOSE for service in compose(name)["services"].values()]
    found = [
        one["command"] for one in services if "toast serve" in " ".join(one.get("command", ()))
    ]
    (container,) = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    return [*found, container["args"]]


@pytest.mark.skipif(
    importlib.util.find_spec("kubernetes_validate") is None,
    reason="MANIFESTS NOT CHECKED: kubernetes-validate is not installed; run make setup",
)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: str(one["kind"]))
def test_a_manifest_fits_the_schema_of_kubernetes(manifest: dict[str, Any]) -> None:
    import kubernetes_validate

    kubernetes_validate.validate(manifest, OLDEST, strict=True)
    wrong = {**manifest, "spce": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, OLDEST, strict=True)


def test_manifests_belong_together() -> None:
    labels = of_kind("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert of_kind("Service")["spec"]["selector"].items() <= labels.items()
    assert of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    assert of_kind("StatefulSet")["spec"]["serviceName"] == of_kind("Service")["metadata"]["name"]


def test_the_pod_may_write_nothing_but_its_data_and_tmp() -> None:
    pod = of_kind("StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/data", "/tmp"}
    user = re.search(r"useradd --uid (\d+)", (ROOT / "Dockerfile").read_text())
    assert user is not None
    assert pod["securityContext"]["runAsUser"] == int(user[1])


def test_nobody_turns_the_filter_of_calls_off() -> None:
    pod = of_kind("StatefulSet")["spec"]["template"]["spec"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
    for name in COMPOSE:
        for service in compose(name)["services"].values():
            assert not any("unconfined" in one for one in service.get("security_opt", ()))


def test_the_pod_reaches_nobody_but_servers_of_names() -> None:
    policy = of_kind("NetworkPolicy")["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {53}


def test_probes_ask_for_paths_that_need_no_key() -> None:
    from toast.service.web.guard import OPEN_PATHS

    (container,) = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    probes = [row["httpGet"]["path"] for key, row in container.items() if key.endswith("Probe")]
    assert len(probes) == 3
    assert set(probes) <= OPEN_PATHS


@pytest.mark.parametrize("name", COMPOSE)
def test_every_toast_of_a_compose_file_has_a_read_only_root(name: str) -> None:
    ours = [one for one in compose(name)["services"].values() if "build" in one]
    assert ours
    for service in ours:
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "/tmp" in service["tmpfs"]
        assert (DEPLOY / service["build"]["context"] / "Dockerfile").exists()


@pytest.mark.parametrize("name", COMPOSE)
def test_a_compose_file_names_what_it_has(name: str) -> None:
    document = compose(name)
    for service in document["services"].values():
        assert set(service.get("depends_on", {})) <= set(document["services"])
        named = {one.split(":")[0] for one in service.get("volumes", []) if not one.startswith("/")}
        assert named <= set(document["volumes"])
        assert set(service.get("secrets", [])) <= set(document.get("secrets", {}))
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "the world comes through a proxy with TLS"


def test_every_variable_has_a_line_in_the_example() -> None:
    text = (DEPLOY / "compose.several.yaml").read_text()
    wanted = set(re.findall(r"(?<!\$)\$\{(\w+)", text))
    example = (DEPLOY / "env.example").read_text()
    assert wanted == set(re.findall(r"^(\w+)=", example, re.MULTILINE))


def known(text: str) -> bool:
    """Whether the service has a flag that the several nodes need."""
    return any(text in action.option_strings for action in parser()._actions)


def test_the_service_has_the_flags_that_one_node_gives_it() -> None:
    declared = {option for action in parser()._actions for option in action.option_strings}
    one = [command for command in served() if "--artifacts" not in " ".join(command)]
    assert len(one) == 2
    for command in one:
        assert flags(command) <= declared


@pytest.mark.skipif(
    "worker" not in COMMANDS or not known("--artifacts"),
    reason="SEVERAL NODES NOT CHECKED: there is no `toast worker` or no --artifacts yet",
)
def test_several_nodes_use_flags_and_extras_that_exist() -> None:
    document = compose("compose.several.yaml")
    declared = {option for action in parser()._actions for option in action.option_strings}
    assert flags(document["services"]["api"]["command"]) <= declared
    worker = {flag for parameter in COMMANDS["worker"].params for flag in parameter.opts}
    assert flags(document["services"]["worker"]["command"]) <= worker
    extras = document["services"]["worker"]["build"]["args"]["EXTRAS"].split()
    assert set(extras) <= set(pyproject()["project"]["optional-dependencies"])


def test_secrets_are_not_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"/deploy/key", "/deploy/.env"} <= set(ignored)
    assert not re.search(r"^\w+(KEYS|PASSWORD)=\S", (DEPLOY / "env.example").read_text(), re.M)

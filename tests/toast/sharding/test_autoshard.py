"""`toast.autoshard` on real training states, meshes of every kind, and functions of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")),
    }
    environment.pop("TOAST_URL", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.toast.sharding.cases"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {one.pop("case"): one for one in found}


def result(cases: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    found = cases[name]
    assert "error" not in found, found["error"]
    assert found.get("difference", 0.0) < 1e-4
    return found


def test_a_training_state_on_an_explicit_mesh(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "a_training_state_on_an_explicit_mesh")
    assert found["plans"] == 1, "a counter that began as a number is planned for once"
    assert "model" in found["layout"] or "data" in found["layout"]
    assert found["names"][:3] == ["state['key']", "state['params']['11']", "state['params']['3']"]
    assert found["same_layout"]
    assert found["key_spec"] == "P()"
    assert found["explicit"], "results are on the caller's own mesh"
    assert "@" in found["sum"], "and further work has their types"
    assert found["device"] == "cpu"


def test_steps_are_rewritten(cases: dict[str, dict[str, Any]]) -> None:
    assert result(cases, "a_training_state_in_microbatches")["parts"] == 4
    assert result(cases, "layers_recomputed")["layers"] == [3]


def test_the_current_mesh_is_taken(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "explicit_arrays_under_an_explicit_mesh")
    assert found["mesh"] == "(Explicit, Explicit)"


def test_the_best_mesh_over_all_devices_is_taken(
    cases: dict[str, dict[str, Any]],
) -> None:
    found = result(cases, "the_best_mesh_over_all_devices")
    assert (found["devices"], found["asked"]) == (8, "auto:8")


def test_one_device_needs_no_plan(cases: dict[str, dict[str, Any]]) -> None:
    assert result(cases, "one_device")["plans"] == 0


def test_specs_have_every_leaf_of_the_tree(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "a_registered_dataclass_with_an_unused_leaf")
    assert (found["unused"], found["of_lowered"]) == ("P(None, None)", "P()")
    assert found["scale"] == 3.0
    assert found["device"] == "cpu", "`toast.plan` prices what a mesh of JAX is made of"


def test_static_and_keyword_arguments(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "static_and_keyword_arguments")
    assert found["plans"] == 6
    assert found["static"] is None
    assert found["keywords"] == ["mode", "scale"]


def test_a_jitted_function_keeps_its_donation(cases: dict[str, dict[str, Any]]) -> None:
    assert result(cases, "a_jitted_function_keeps_its_donation")["deleted"] == [True, False]


def test_constraints_and_shardings_are_kept(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "constraints_and_shardings_of_a_jitted_function")
    assert [[], ["data"]] in found["pins"]
    assert [["model"], []] in found["jitted"]


def test_shard_maps_are_kept(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "shard_maps_are_kept")
    assert found["regions"] >= 3
    assert "One shard_map is kept whole" in found["warnings"]
    assert "Plan it for that: data=2,model=4" in found["refused"]


def test_other_shapes_keep_the_layout(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "other_shapes_keep_the_layout")
    assert len(found["pins"]) == 1
    assert found["pins"][0].startswith("w=")


def test_warnings_are_ours_and_name_the_caller(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "warnings_of_ours")
    ((kind, text, here),) = found["nothing fits"]
    assert (kind, here) == ("DoesNotFit", True)
    assert "1.00 KiB" in text
    ((kind, text, here),) = found["unused axis"]
    assert (kind, here) == ("PlanWarning", True)
    assert "model=3" in text
    ((kind, text, here),) = found["closed over"]
    assert (kind, here) == ("ClosedOverArrays", True)
    assert "2.00 MiB" in text


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("no plan yet", "InvalidRequest", "no plan"),
        ("a callback", "UnsupportedModule", "callback"),
        ("explicit axes", "InvalidMesh", "explicit axes"),
        ("another tree", "InvalidRequest", "no argument"),
        ("no argument", "InvalidRequest", "no argument"),
        ("too many devices", "InvalidMesh", "JAX sees 8"),
        ("no function", "InvalidRequest", "not a function"),
        ("no plan in a trace", "InvalidRequest", "JAX traces"),
        ("no client", "InvalidRequest", "no client"),
    ],
)
def test_errors_say_what_is_wrong(
    cases: dict[str, dict[str, Any]], name: str, kind: str, text: str
) -> None:
    found = result(cases, "errors")[name]
    assert found[0] == kind
    assert text in found[1]
    assert found[2]


def test_a_plan_is_kept_on_disk(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "a_plan_is_kept_on_disk")
    assert found["same"]
    assert found["counts"] == [1, 2, 3, 4, 5, 6, 7], (
        "one for the first two, then one for each other memory, device, seed, mesh and program, "
        "and one where what was kept cannot be read"
    )


def test_arrays_of_every_type(cases: dict[str, dict[str, Any]]) -> None:
    assert result(cases, "arrays_of_every_type")["mode"] == "sum"


def test_batches_of_typed_keys(cases: dict[str, dict[str, Any]]) -> None:
    assert result(cases, "batches_of_keys")["rank"] == 1


def test_a_planned_function_may_be_called_in_another(cases: dict[str, dict[str, Any]]) -> None:
    result(cases, "within_a_jitted_function")


def test_a_service_plans_where_one_is_named(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "a_service_plans")
    assert found["here"] == 0
    assert found["events"] == [{"stage": "search"}]
    assert found["asked"] == [["http://somewhere", "secret"]]


def test_names_are_those_of_the_parameters(cases: dict[str, dict[str, Any]]) -> None:
    found = result(cases, "names_are_those_of_the_parameters")
    assert found["names"] == [["params['layers'][0]['w']", "batch"]] * 3
    assert found["specs"] == [[[], ["model"]]] * 3

"""What was found as SARIF 2.1.0, which code scanning shows at the lines of the budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toast.ci.baseline import version
from toast.ci.gate import RULES, CiFinding, CiReport

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(report: CiReport, root: Path) -> str:
    """One run with a result for each finding; paths are relative to `root`."""
    rules = [
        {
            "id": rule,
            "shortDescription": {"text": text},
            "defaultConfiguration": {"level": level},
        }
        for rule, (level, text) in RULES.items()
    ]
    uri = relative(report.budget.path, root)
    run = {
        "tool": {"driver": {"name": "toast ci", "version": version(), "rules": rules}},
        "columnKind": "utf16CodeUnits",
        "results": [_result(finding, uri) for finding in report.findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def relative(path: Path, root: Path) -> str:
    """A path as seen from `root`, with slashes; as it is where it lies elsewhere."""
    whole = path.resolve()
    base = root.resolve()
    return (whole.relative_to(base) if whole.is_relative_to(base) else whole).as_posix()


def _result(finding: CiFinding, uri: str) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": finding.line}}
    return {
        "ruleId": finding.rule,
        "ruleIndex": list(RULES).index(finding.rule),
        "level": finding.level,
        "message": {"text": f"{finding.message} {finding.hint}".strip()},
        "locations": [{"physicalLocation": place}],
        # The figures change from run to run, and it is the same alert.
        "partialFingerprints": {"toastModelRule/v1": f"{finding.model}/{finding.rule}"},
    }

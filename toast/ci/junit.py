"""What was found as JUnit XML, which GitLab, Jenkins and others show beside the tests."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from toast.ci.gate import CiFinding, CiReport, ModelReport

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: CiReport) -> str:
    """A test case for each model; what could not be planned is an error, all else a failure."""
    failed = [model for model in report.models if model.failed]
    unplanned = sum(model.figures is None for model in report.models)
    counts = {
        "name": "toast ci",
        "tests": str(len(report.models)),
        "failures": str(len(failed) - unplanned),
        "errors": str(unplanned),
    }
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", counts | {"skipped": "0"})
    for model in report.models:
        _case(suite, model, report)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, model: ModelReport, report: CiReport) -> None:
    request = model.model.request
    name = f"{model.model.name} ({request.mesh} on {request.device})"
    path = report.budget.path.as_posix()
    case = ET.SubElement(
        suite,
        "testcase",
        {"classname": "toast.budget", "name": _text(name), "file": _text(path)},
    )
    for finding in model.findings:
        if finding.level == "error":
            kind = "error" if finding.rule == "not-planned" else "failure"
            attributes = {"type": finding.rule, "message": _text(finding.message)}
            ET.SubElement(case, kind, attributes).text = _text(finding.hint)
    if model.figures is not None:
        rows = [f"{key}: {value:g}" for key, value in model.figures.to_dict().items()]
        rows += [_said(one) for one in model.findings if one.level != "error"]
        ET.SubElement(case, "system-out").text = _text("\n".join(rows))


def _said(finding: CiFinding) -> str:
    return f"{finding.level}: {finding.message}"


def _text(text: str) -> str:
    """Text without the characters that XML has no way to write."""
    return _NOT_XML.sub("?", text)

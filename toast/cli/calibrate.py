"""`toast calibrate`: its flags are in `app`; here is what it does and prints."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from toast.analysis.errors import InvalidRequest
from toast.calibrate.calibration import Calibration, calibrate
from toast.cli.terminal import Answer
from toast.costmodel.calibration import Fit, Sample
from toast.costmodel.hardware.device_files import write_profile
from toast.costmodel.hardware.quantities import format_seconds


def calibrate_to(output: Path, wanted: Calibration, answer: Answer) -> None:
    """Measure, write the profile to `output`, print how well it fits what was measured."""
    if output.suffix != ".toml":
        raise InvalidRequest(
            f"{output} is no name for a device file.", "Give one that ends in .toml with -o."
        )
    with answer.progress() as bar:
        bar.stage("starting")

        def on_sample(sample: Sample) -> None:
            bar.stage(str(sample))

        fit = calibrate(wanted, on_sample=on_sample)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(write_profile(fit.device, _notes(fit)), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(
            f"{output} cannot be written: {error.strerror}.", "Give another file with -o."
        ) from error
    answer.document(json.dumps(document(fit), indent=2))
    answer.tables(table(fit), Text(f"\n{summary(fit)}"))
    answer.written(output, f"Written to {output}; use it with --device {output}.")


def document(fit: Fit) -> dict[str, Any]:
    """The device, and each microbenchmark with its seconds as measured and as fitted."""
    rows = zip(fit.samples, fit.predicted, strict=True)
    return {
        "device": dataclasses.asdict(fit.device),
        "samples": [
            {
                "what": str(sample),
                "measured_seconds": float(sample.seconds),
                "fitted_seconds": float(predicted),
            }
            for sample, predicted in rows
        ],
    }


def table(fit: Fit) -> Table:
    """Each microbenchmark with its time, the fitted one and the error."""
    found = Table(
        title="Microbenchmarks", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    found.add_column("what")
    for column in ("measured", "fitted", "error"):
        found.add_column(column, justify="right")
    for sample, predicted, error in zip(fit.samples, fit.predicted, fit.errors, strict=True):
        found.add_row(
            str(sample), format_seconds(sample.seconds), format_seconds(predicted), f"{error:+.0%}"
        )
    return found


def summary(fit: Fit) -> str:
    """The error of the fit in one sentence."""
    errors = np.abs(fit.errors)
    return (
        f"{len(errors)} microbenchmarks; relative error {np.median(errors):.0%} in the median, "
        f"{np.quantile(errors, 0.9):.0%} in nine of ten."
    )


def _notes(fit: Fit) -> list[str]:
    return [f"Written by `toast calibrate`. {summary(fit)}"]

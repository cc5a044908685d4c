"""The process that runs both modules: `python -m toast.verify.child DIR SEED EXECUTOR BUDGET`.

It is started by `toast.verify.verification` with as many virtual CPU devices as the plan's mesh
has.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax

from toast.analysis.errors import InvalidModule
from toast.process.messages import Emitter, complete, leave
from toast.verify.comparison import verify_directory
from toast.verify.stages import VerifyStages
from toast.verify.unsharded import UnshardedRuns


def main(arguments: list[str]) -> int:
    """The whole process; returns its exit code."""
    jax.config.update("jax_enable_x64", True)  # else 64-bit inputs would be made 32-bit
    directory, seed, executor, budget = arguments

    def verify(emitter: Emitter) -> None:
        stages = VerifyStages(lambda stage: emitter.emit("stage", stage=stage))
        verification = verify_directory(
            Path(directory), executor, int(budget), stages, UnshardedRuns(int(seed))
        )
        emitter.emit("verification", verification=verification.model_dump(mode="json"))

    return complete(
        verify,
        (jax.errors.JaxRuntimeError, ValueError),
        lambda reason: InvalidModule(
            f"XLA refuses to compile or to run the pair on virtual CPU devices: {reason}.",
            "A module with ops of one platform alone can only be verified on that platform.",
        ),
    )


if __name__ == "__main__":
    leave(main(sys.argv[1:]))

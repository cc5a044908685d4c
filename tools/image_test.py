"""Build the container image, start it, ask it for a plan, and stop it.

`python -m tools.image_test` (or `make image-test`) exits with 0 when the image answered as it
should, 1 when it did not (the container's log is printed), 2 when nothing here can build images.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tools.containers import ImageFailed, MissingTool, find_engine

ROOT = Path(__file__).resolve().parents[1]
MODULE = b"""\
module @two_layers {
  func.func public @main(%x: tensor<64x512xf32>, %w1: tensor<512x2048xf32>,
                         %w2: tensor<2048x512xf32>) -> tensor<64x512xf32> {
    %0 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
        : (tensor<64x512xf32>, tensor<512x2048xf32>) -> tensor<64x2048xf32>
    %1 = stablehlo.tanh %0 : tensor<64x2048xf32>
    %2 = stablehlo.dot_general %1, %w2, contracting_dims = [1] x [0]
        : (tensor<64x2048xf32>, tensor<2048x512xf32>) -> tensor<64x512xf32>
    return %2 : tensor<64x512xf32>
  }
}
"""
PLAN_PATH = "/v1/plan?mesh=data=2,model=4&device=tpu-v5e&seed=1&rollouts=64&threads=1"
CONFIRM_PATH = f"{PLAN_PATH}&confirm=1&confirm_time=100"
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(
    url: str, body: bytes | None = None, key: str = "", accept: str = "*/*"
) -> tuple[int, bytes]:
    """The status and the body that the service answers with (POST where there is a body)."""
    headers = {"Content-Type": "application/octet-stream", "Accept": accept}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with _opener.open(request, timeout=120) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def wait_until_healthy(url: str, seconds: float = 60.0) -> None:
    """Return once `/healthz` answers 200; raises `ImageFailed` after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if ask(f"{url}/healthz")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise ImageFailed(f"/healthz did not answer 200 within {seconds:.0f} s")


def check_service(url: str, key: str) -> None:
    """Raise `ImageFailed` unless the service wants its key and plans a small module."""
    status, _ = ask(f"{url}{PLAN_PATH}", MODULE)
    if status != 401:
        raise ImageFailed(f"a request without a key was answered with {status}, not 401")
    status, body = ask(f"{url}{PLAN_PATH}", MODULE, key)
    if status != 200:
        raise ImageFailed(f"POST /v1/plan answered {status}: {body.decode(errors='replace')}")
    for word in (b"sdy.mesh", b"sdy.sharding", b'"model"'):
        if word not in body:
            raise ImageFailed(f"the module that came back has no {word.decode()}")
    status, body = ask(f"{url}/v1/plan?mesh=data=2&device=tpu-v5e", b"no module", key)
    problem = json.loads(body)
    if status != 422 or problem.get("code") != "invalid_module":
        raise ImageFailed(f"bytes that are no module were answered with {status}: {problem}")


def check_compilers(url: str, key: str) -> None:
    """Raise `ImageFailed` unless the compiler of a TPU confirms a plan of a small module."""
    status, body = ask(f"{url}{CONFIRM_PATH}", MODULE, key, "application/json")
    if status != 200:
        raise ImageFailed(f"a plan to be confirmed was answered with {status}: {body.decode()}")
    confirmed = json.loads(body)["confirmed"]
    taken = any(plan["chosen"] and plan["compiled"] for plan in confirmed["plans"])
    if not confirmed["fits"] or not taken:
        raise ImageFailed(f"the compiler confirmed no plan: {json.dumps(confirmed)}")


def build_and_check(
    tag: str, *, extras: str, build_only: bool, say: Callable[[str], None] = print
) -> None:
    """Everything that `main` does, with errors as exceptions."""
    engine = find_engine()
    say(f"Building {tag} with {type(engine).__name__.lower()}.")
    engine.build(ROOT, tag, extras)
    if build_only:
        return
    key = secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        try:
            with engine.started(tag, {"TOAST_API_KEYS": key}, log) as url:
                say(f"Started it at {url}.")
                wait_until_healthy(url)
                check_service(url, key)
                if "aot" in extras.split():
                    check_compilers(url, key)
                    say("The compiler of a TPU confirmed a plan in it.")
        except Exception:
            if log.exists():
                say(log.read_text(errors="replace"))
            raise
    say("The image is healthy, wants its key, planned a module, refused a bad one, and stopped.")


def main() -> int:
    """The command; see the module's own text for the exit codes."""
    parser = argparse.ArgumentParser(prog="image_test", description=__doc__)
    parser.add_argument("--tag", default="toast-planner:dev", help="name of the image")
    parser.add_argument("--extras", default="", help="of pyproject.toml, such as aot")
    parser.add_argument("--build-only", action="store_true", help="build it and stop there")
    options = parser.parse_args()
    try:
        build_and_check(options.tag, extras=options.extras, build_only=options.build_only)
    except MissingTool as error:
        print(error, file=sys.stderr)
        return 2
    except (ImageFailed, subprocess.SubprocessError, OSError) as error:
        print(f"The image test failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The host's pip settings, in the form in which an image build may see them.

A build needs the package index that the host uses, and the certificates that the host trusts. Both
may be secret, so they travel as build secrets, never as arguments or files of the image.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

CA_IN_BUILD = "/run/secrets/ca_bundle"
"""Where the Dockerfile mounts the secret `ca_bundle`."""

_PASSED_ON = ("index-url", "extra-index-url", "trusted-host", "proxy", "default-timeout")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")


def parse_config(listing: str) -> dict[str, str]:
    """The settings in the output of `pip config list`, the last of each name winning."""
    settings: dict[str, str] = {}
    for line in listing.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            settings[key.strip().rpartition(".")[2]] = str(ast.literal_eval(value))
    return settings


def host_settings() -> dict[str, str]:
    """What pip on this host is configured with, from its files and its environment."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return parse_config(listing)


def build_config(settings: dict[str, str], *, with_certificates: bool) -> str:
    """The text of a `pip.conf` for inside the build.

    Indexes on the host's own disk are left out: the build cannot reach them.
    """
    lines = ["[global]"]
    for key in _PASSED_ON:
        values = [v for v in settings.get(key, "").split() if not v.startswith(("file:", "/"))]
        if values:
            lines.append(f"{key} = " + "\n    ".join(values))
    if with_certificates:
        lines.append(f"cert = {CA_IN_BUILD}")
    return "\n".join(lines) + "\n"


def certificates(settings: dict[str, str]) -> Path | None:
    """The bundle of certificate authorities that pip on this host is told to trust, if any."""
    for name in (settings.get("cert"), os.environ.get("SSL_CERT_FILE")):
        if name and Path(name).is_file():
            return Path(name)
    return None


def build_options(directory: Path) -> list[str]:
    """Options that hand the settings to `docker build` or `buildah bud`.

    Writes the secrets into `directory`, which should be private and short-lived.
    """
    settings = host_settings()
    bundle = certificates(settings)
    config = directory / "pip.conf"
    config.touch(mode=0o600)
    config.write_text(build_config(settings, with_certificates=bundle is not None))
    options = ["--secret", f"id=pip_conf,src={config}"]
    if bundle is not None:
        options += ["--secret", f"id=ca_bundle,src={bundle.resolve()}"]
    for name in (*_PROXIES, *(name.upper() for name in _PROXIES)):
        if name in os.environ:
            options += ["--build-arg", name]
    return options

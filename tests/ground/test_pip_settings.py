"""What of the host's pip settings an image build gets to see."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from tools import pip_settings
from tools.pip_settings import CA_IN_BUILD, build_config, build_options, certificates, parse_config

LISTING = """\
:env:.default-timeout='60'
global.cert='/etc/ssl/some.pem'
global.extra-index-url='file:///srv/simple https://mirror.invalid/simple'
global.find-links='/srv/wheels'
global.index-url='https://user:it%27s@mirror.invalid/root/simple'
"""


def read_back(text: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return dict(parser["global"])


def test_settings_from_files_and_environment_are_read() -> None:
    assert parse_config(LISTING) == {
        "default-timeout": "60",
        "cert": "/etc/ssl/some.pem",
        "extra-index-url": "file:///srv/simple https://mirror.invalid/simple",
        "find-links": "/srv/wheels",
        "index-url": "https://user:it%27s@mirror.invalid/root/simple",
    }


def test_no_settings_at_all_are_no_error() -> None:
    assert parse_config("") == {}
    assert read_back(build_config({}, with_certificates=False)) == {}


def test_indexes_are_passed_on_and_places_on_the_disk_are_not() -> None:
    config = read_back(build_config(parse_config(LISTING), with_certificates=False))
    assert config == {
        "default-timeout": "60",
        "extra-index-url": "https://mirror.invalid/simple",
        "index-url": "https://user:it%27s@mirror.invalid/root/simple",
    }


def test_several_indexes_stay_several() -> None:
    config = build_config({"extra-index-url": "https://a/s https://b/s"}, with_certificates=False)
    assert read_back(config)["extra-index-url"].split() == ["https://a/s", "https://b/s"]


def test_the_certificates_are_named_by_their_place_in_the_build() -> None:
    config = read_back(build_config(parse_config(LISTING), with_certificates=True))
    assert config["cert"] == CA_IN_BUILD


def test_certificates_are_those_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("certificates")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert certificates({"cert": str(bundle)}) == bundle
    assert certificates({"cert": str(tmp_path / "absent.pem")}) is None
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert certificates({}) == bundle


def test_secrets_travel_in_files_that_only_the_owner_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://user:word@proxy.invalid:3128")
    monkeypatch.setattr(pip_settings, "host_settings", lambda: parse_config(LISTING))
    options = build_options(tmp_path)
    config = tmp_path / "pip.conf"
    assert f"id=pip_conf,src={config}" in options
    assert config.stat().st_mode & 0o077 == 0
    assert options[-2:] == ["--build-arg", "HTTPS_PROXY"]
    assert not any("word" in option or "mirror.invalid" in option for option in options)


def test_the_settings_of_this_host_can_be_read() -> None:
    assert all(isinstance(value, str) for value in pip_settings.host_settings().values())

"""Opens the store that `--artifacts` names."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from toast.service.artifacts.guard import NamingGuard
from toast.service.artifacts.local import ArtifactStore

SCHEMES = ("file", "s3")


class BadLocation(ValueError):
    """The URL of the files cannot be used; the text says why."""


def open_artifacts(
    url: str | None, data: Path, *, guard: NamingGuard, owner: str, cache_bytes: int
) -> ArtifactStore:
    """The store at `url`; in `data` when None. `owner` names this server in a shared folder."""
    if url is None:
        return ArtifactStore(data / "artifacts", guard=guard)
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise BadLocation(
            f"--artifacts {url!r} is not understood; give file:///FOLDER or s3://BUCKET/PREFIX"
        )
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise BadLocation(f"--artifacts {url!r} is no absolute path; write file:///FOLDER")
        return ArtifactStore(Path(unquote(parts.path)), guard=guard, owner=owner)
    return _open_s3(url, data / "artifact-cache", guard=guard, cache_bytes=cache_bytes)


def _open_s3(url: str, cache: Path, *, guard: NamingGuard, cache_bytes: int) -> ArtifactStore:
    parts = urlsplit(url)
    if not parts.netloc:
        raise BadLocation(f"--artifacts {url!r} names no bucket; write s3://BUCKET/PREFIX")
    options = _s3_options(parts.query)
    try:
        import s3fs  # noqa: F401

        from toast.service.artifacts.remote import RemoteArtifactStore, connect
    except ImportError as error:
        raise BadLocation(
            "--artifacts s3://... needs s3fs; pip install 'toast-planner[s3]'"
        ) from error
    files, prefix = connect(f"s3://{parts.netloc}{parts.path}", options)
    return RemoteArtifactStore(files, prefix, cache, guard=guard, cache_bytes=cache_bytes)


def _s3_options(query: str) -> dict[str, Any]:
    given = {name: values[-1] for name, values in parse_qs(query).items()}
    unknown = sorted(set(given) - {"endpoint_url", "region"})
    if unknown:
        raise BadLocation(f"--artifacts takes endpoint_url and region, not {', '.join(unknown)}")
    client = {"region_name": given["region"]} if "region" in given else {}
    # Other servers write: nothing seen once may be taken for what is there now.
    options: dict[str, Any] = {"use_listings_cache": False, "client_kwargs": client}
    if "endpoint_url" in given:
        options["endpoint_url"] = given["endpoint_url"]
    return options

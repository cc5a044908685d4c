"""The main job: a module and a request in, a plan and the sharded module out."""

from __future__ import annotations

"""Steps of models from public libraries, built as their users build them.

None of the libraries is imported before a step is built; `Builder.missing` says which are not
installed. `pip install -e .[libraries]` brings them all.
"""

from __future__ import annotations

from examples.libraries import diffusion, equinox_models, huggingface_sizes, nnx_models, optimizers
from examples.libraries.common import Builder

LIBRARIES: dict[str, Builder] = {
    builder.name: builder
    for module in (nnx_models, equinox_models, optimizers, huggingface_sizes, diffusion)
    for builder in module.BUILDERS
}
__all__ = ["LIBRARIES", "Builder"]

"""The worker of `conformance/sglang` with a shadow around its core (runs inside the environment of a release).

`python shadow_worker.py --source FOLDER --core python|rust`, with the shadow's own environment variables.
"""

from __future__ import annotations

import importlib
from typing import Any

from pinproof.conformance import shadow
from pinproof.conformance.sglang import loader, worker

bare = loader.build


def build(*args: Any, **kwargs: Any) -> Any:
    """A core behind a shadow, as the cache would have it: components call the shadow back."""
    core = bare(*args, **kwargs)
    home = importlib.import_module("sglang.srt.mem_cache.unified_cache.unified_tree_core_interface")
    core.tree = shadow.wrap(core.tree, home.UnifiedTreeCoreInterface, core.components)
    for component in getattr(core.tree, "components_by_type", {}).values():
        component.tree_core = core.tree
    return core


if __name__ == "__main__":
    loader.build = build
    worker.main()

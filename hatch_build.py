"""Build hook: wheel and source distribution contain the built web UI, and are refused without it."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WebBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Refuses to package Artel without its page. Editable installs need none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Check that the page is there before files are collected."""
        index = Path(self.root) / "src" / "artel" / "api" / "static" / "app" / "index.html"
        if version != "editable" and not index.is_file():
            raise RuntimeError(f"The web UI is not built: {index} is missing. Run `make setup` first.")

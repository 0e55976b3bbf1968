"""The group of commands that ours are in."""

from typing import Any

from typer.core import TyperGroup


class QuickGroup(TyperGroup):
    """Answers `--help` of its commands without importing pydantic, which takes as long as all the rest.

    Typer converts every option that has no value through pydantic; a help option that is not given has none.
    """

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option

"""The command groups of the command line."""

from typing import Any, ClassVar

from typer.core import TyperGroup

SHORT = 60  # maximum characters of a command's help in a list


class QuickGroup(TyperGroup):
    """Shows `--help` without importing pydantic, which takes as long as everything else.

    Typer converts every option without a value with pydantic, so the help option gets a default value.
    """

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


class SectionedGroup(QuickGroup):
    """Lists its commands in sections, with examples at the end."""

    sections: ClassVar[dict[str, tuple[str, ...]]] = {
        "Start": ("up", "link", "login", "logout"),
        "Work": ("chat", "workflows"),
        "Files": ("connect", "undo", "grants"),
        "Manage": ("projects", "agents", "usage", "sessions", "password", "token"),
        "Operate": ("serve", "doctor", "users", "db", "memory"),
    }
    examples = (
        "artel up                            start a server here and get a login link",
        "artel chat                          talk to the agents of a project",
        'artel chat "Why does it fail?" -a coder',
        "artel connect . -p Website          let agents work in this folder",
    )

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands section by section; commands without a section come last."""
        named = {name for names in self.sections.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in named)
        for title, names in (*self.sections.items(), ("More", others)):
            rows = [(name, self.commands[name].get_short_help_str(SHORT)) for name in names if name in self.commands]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the examples, one per line."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")

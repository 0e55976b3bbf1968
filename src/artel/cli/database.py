"""`artel db …`."""

import typer

from artel.cli.group import QuickGroup
from artel.cli.output import AsJson, show

app = typer.Typer(help="Manage the database.", no_args_is_help=True, cls=QuickGroup)


@app.callback()
def database() -> None:
    """Manage the database."""


@app.command("upgrade")
def upgrade_database(as_json: AsJson = False) -> None:
    """Upgrade the database to the schema of this version. Embedded servers do this when they start."""
    from artel.container import open_database
    from artel.data_folder import DataFolder
    from artel.db import schema
    from artel.logs import configure_logs
    from artel.settings import load_settings

    settings = load_settings()
    configure_logs(settings.log_format, "error")
    DataFolder.open(settings.data_dir)
    engine = open_database(settings).engine
    before, after = schema.upgrade(engine)
    engine.dispose()
    sentence = f"The database is already at schema {after}." if before == after else f"Upgraded to schema {after}."
    show({"before": before, "after": after}, as_json, sentence)

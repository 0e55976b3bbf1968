"""`artel db …`."""

import typer

from artel.cli.group import QuickGroup
from artel.cli.output import AsJson, show

app = typer.Typer(help="The database.", no_args_is_help=True, cls=QuickGroup)


@app.callback()
def database() -> None:
    """The database."""


@app.command("upgrade")
def upgrade_database(as_json: AsJson = False) -> None:
    """Bring the database to the schema of this version. Embedded servers do it by themselves when they start."""
    from artel.container import open_database
    from artel.data_folder import DataFolder
    from artel.db import schema
    from artel.settings import load_settings

    settings = load_settings()
    folder = DataFolder.open(settings.data_dir, exclusive=False)
    before, after = schema.upgrade(open_database(settings).engine)
    folder.close()
    sentence = f"The database is at schema {after}, as before." if before == after else f"Upgraded to schema {after}."
    show({"before": before, "after": after}, as_json, sentence)

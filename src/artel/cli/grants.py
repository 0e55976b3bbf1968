"""`artel grants …`."""

from typing import TYPE_CHECKING, Annotated

import typer

from artel.cli.group import QuickGroup
from artel.cli.output import AsJson, show, table

if TYPE_CHECKING:
    from artel.connector.grants import Grant, Grants
    from artel.connector.state_folder import StateFolder

app = typer.Typer(
    help="Permissions that you gave agents for good, in connected folders.", no_args_is_help=True, cls=QuickGroup
)


@app.command("list")
def list_grants(as_json: AsJson = False) -> None:
    """List the grants."""
    rows = [
        {"number": number, "allows": grant.text, "folder": str(state.workspace), "project": state.project_id}
        for number, (state, _, grant) in enumerate(_all(), 1)
    ]
    table(rows, ("number", "allows", "folder", "project"), as_json, "No grants.")


@app.command("revoke")
def revoke_grant(
    number: Annotated[int, typer.Argument(help="The number in `artel grants list`.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Revoke a grant.

    A connector that is running stops allowing it at once.
    """
    from artel.connector.errors import NoSuchGrant

    found = _all()
    if not 1 <= number <= len(found):
        raise NoSuchGrant(f"There is no grant {number}. List them: artel grants list")
    _, grants, grant = found[number - 1]
    grants.revoke(grant)
    show({"revoked": grant.text}, as_json, f"No longer allowed: {grant.text}")


def _all() -> "list[tuple[StateFolder, Grants, Grant]]":
    from artel.connector.grants import Grants
    from artel.connector.state_folder import StateFolder

    stores = [(state, Grants(state.path / "grants.json")) for state in StateFolder.all()]
    return [(state, grants, grant) for state, grants in stores for grant in grants.lasting()]

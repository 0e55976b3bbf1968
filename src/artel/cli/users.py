"""`artel users …`: for the operator, on the server's machine, with direct access to the database."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from artel.cli.group import QuickGroup
from artel.cli.output import AsJson, Yes, ago, confirm, secret_from_user, show, table

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from artel.auth.accounts import Account
    from artel.db.engine import Database

T = TypeVar("T")
MAX_LIMIT = 1_000_000_000

app = typer.Typer(help="Manage accounts (for the server operator).", no_args_is_help=True, cls=QuickGroup)


@app.command("list")
def list_users(
    limit: Annotated[int, typer.Option(help="Maximum number of accounts.", min=1, max=10_000)] = 100,
    offset: Annotated[int, typer.Option(help="Number of accounts to skip.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """List the accounts, oldest first."""
    from artel.auth.accounts import list_accounts

    accounts = _with_database(lambda database: database.read(list_accounts, limit, offset))
    rows = [
        {"user_id": a.user_id, "email": a.email, "is_admin": a.is_admin, "created_at": a.created_at.isoformat()}
        for a in accounts
    ]
    if not as_json:
        rows = [row | {"created_at": ago(a.created_at)} for row, a in zip(rows, accounts, strict=True)]
    table(rows, ("user_id", "email", "is_admin", "created_at"), as_json, "No accounts yet.")


@app.command("create")
def create_user(email: Annotated[str, typer.Argument(help="The e-mail address.")], as_json: AsJson = False) -> None:
    """Create an account. The password is asked for, or read from standard input."""
    from artel.auth.accounts import create_account

    address, password_hash = _new_login(email, "Password")
    account = _with_database(lambda database: database.run(create_account, address, password_hash))
    show({"user_id": account.user_id, "email": account.email}, as_json, f"Created account {account.user_id} ({email}).")


@app.command("set-password")
def set_password(email: Annotated[str, typer.Argument(help="The e-mail address.")], as_json: AsJson = False) -> None:
    """Give an account a new password. It is asked for, or read from standard input."""
    from artel.auth.logins import change_password

    address, password_hash = _new_login(email, "New password")
    _with_database(lambda database: database.run(change_password, address, password_hash))
    show({"email": email}, as_json, f"{email} has a new password.")


@app.command("limit")
def limit_user(
    account: Annotated[str, typer.Argument(help="The e-mail address, or the number in `artel users list`.")],
    monthly_usd: Annotated[
        str | None, typer.Option(help="Dollars per month over all projects, `none` or `default`.")
    ] = None,
    storage_mb: Annotated[str | None, typer.Option(help="Megabytes of storage, `none` or `default`.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set the spending and storage limits of a user."""
    from artel.auth.accounts import find_account, set_limits
    from artel.budgets.month import catch_up

    values: dict[str, int | None] = {}
    if monthly_usd is not None:
        values["monthly_micros"] = _limit(monthly_usd, 1_000_000, "--monthly-usd")
    if storage_mb is not None:
        values["storage_bytes"] = _limit(storage_mb, 1_000_000, "--storage-mb")
    if not values:
        raise typer.BadParameter("give --monthly-usd, --storage-mb, or both")

    def change(connection: "Connection") -> "Account":
        changed = set_limits(connection, find_account(connection, account).user_id, values)
        if values.get("monthly_micros") is not None:
            catch_up(connection, changed.principal)
        return changed

    changed = _with_database(lambda database: database.run(change))
    limits = {"monthly_micros": changed.monthly_micros, "storage_bytes": changed.storage_bytes}
    show({"user_id": changed.user_id, **limits}, as_json, f"Set the limits of {account}.")


def _limit(text: str, unit: int, option: str) -> int | None:
    """Return a limit as stored: None is the server's default, -1 is no limit."""
    if text in ("default", "none"):
        return None if text == "default" else -1
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= MAX_LIMIT:
        raise typer.BadParameter(f"{option} is a number from 0 to {MAX_LIMIT:,}, `none` or `default`, not {text!r}")
    return round(amount * unit)


@app.command("delete")
def delete_user(
    account: Annotated[str, typer.Argument(help="The e-mail address, or the number in `artel users list`.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete an account with its projects and agents.

    Its tokens stop working at once.
    """
    from artel.agent_memory.changes import delete_account
    from artel.container import task_workspaces
    from artel.settings import load_settings

    confirm(f"Delete {account} with all its projects and agents?", yes)
    deleted = _with_database(lambda database: database.run(delete_account, account))
    task_workspaces(load_settings()).remove(deleted)
    show({"deleted": account}, as_json, f"Deleted {account}.")


def _new_login(email: str, prompt: str) -> tuple[str, str]:
    """Ask for a password; return the e-mail address and the password hash, validated as for a registration."""
    from pydantic import ValidationError

    from artel.auth.passwords import hash_password
    from artel.contract.http import Registration

    try:
        registration = Registration.model_validate({"email": email, "password": secret_from_user(prompt, twice=True)})
    except ValidationError as invalid:
        reasons = "; ".join(f"{error['loc'][0]}: {error['msg']}" for error in invalid.errors())
        raise typer.BadParameter(reasons) from None
    return registration.email, hash_password(registration.password.get_secret_value())


def _with_database(use: "Callable[[Database], Awaitable[T]]") -> T:
    import asyncio

    from artel.container import usable_database
    from artel.data_folder import DataFolder
    from artel.logs import configure_logs
    from artel.settings import load_settings

    settings = load_settings()
    configure_logs(settings.log_format, "warning")

    async def run() -> T:
        DataFolder.open(settings.data_dir)
        async with usable_database(settings) as database:
            return await use(database)

    return asyncio.run(run())

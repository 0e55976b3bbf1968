"""The commands of the operator, on the server's machine: `artel users …`, `artel db …` and `artel memory …`."""

import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from artel.cli.command_line import AsJson, Yes, command_group
from artel.cli.output import ago, confirm, secret_from_user, show, table

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from artel.auth.accounts import AccountRow
    from artel.db.engine import Database
    from artel.settings import Settings

T = TypeVar("T")
MAX_LIMIT = 1_000_000_000
AccountName = Annotated[str, typer.Argument(help="The e-mail address, or the number in `artel users list`.")]
Email = Annotated[str, typer.Argument(help="The e-mail address.")]

users = command_group("Manage accounts (for the server operator).")
database = command_group("Manage the database.")
memory = command_group("Manage the memory of agents (for the server operator).")


@users.command("list")
def list_users(
    limit: Annotated[int, typer.Option(help="Maximum number of accounts.", min=1, max=10_000)] = 100,
    offset: Annotated[int, typer.Option(help="Number of accounts to skip.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """List the accounts, oldest first."""
    from artel.auth.accounts import list_accounts
    from artel.contract.http import PageRequest

    accounts = _with_database(lambda database: database.read(list_accounts, PageRequest(limit, offset)))
    rows = [
        {
            "user_id": account.user_id,
            "email": account.email,
            "is_admin": account.is_admin,
            "created_at": account.created_at.isoformat() if as_json else ago(account.created_at),
        }
        for account in accounts
    ]
    table(rows, ("user_id", "email", "is_admin", "created_at"), as_json, "No accounts yet.")


@users.command("create")
def create_user(email: Email, as_json: AsJson = False) -> None:
    """Create an account. The password is asked for, or read from standard input."""
    from artel.auth.accounts import create_account

    address, password_hash = _new_login(email, "Password")
    account = _with_database(lambda database: database.run(create_account, address, password_hash, "operator"))
    show({"user_id": account.user_id, "email": account.email}, as_json, f"Created account {account.user_id} ({email}).")


@users.command("set-password")
def set_password(email: Email, as_json: AsJson = False) -> None:
    """Give an account a new password. It is asked for, or read from standard input."""
    from artel.auth.logins import change_password

    address, password_hash = _new_login(email, "New password")
    _with_database(lambda database: database.run(change_password, address, password_hash))
    show({"email": email}, as_json, f"{email} has a new password.")


@users.command("limit")
def limit_user(
    account: AccountName,
    monthly_usd: Annotated[
        str | None, typer.Option(help="Dollars per month over all projects, `none` or `default`.")
    ] = None,
    storage_mb: Annotated[str | None, typer.Option(help="Megabytes of storage, `none` or `default`.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set the spending and storage limits of a user."""
    from artel.auth.accounts import find_account, set_limits
    from artel.budgets.month import catch_up
    from artel.db.tx import Tx

    values: dict[str, int | None] = {}
    if monthly_usd is not None:
        values["monthly_micros"] = _limit(monthly_usd, "--monthly-usd")
    if storage_mb is not None:
        values["storage_bytes"] = _limit(storage_mb, "--storage-mb")
    if not values:
        raise typer.BadParameter("give --monthly-usd, --storage-mb, or both")

    def change(connection: "Connection") -> "AccountRow":
        tx = Tx(connection, find_account(connection, account).principal)
        changed = set_limits(tx, values, "operator")
        if values.get("monthly_micros") is not None:
            catch_up(tx)
        return changed

    changed = _with_database(lambda database: database.run(change))
    limits = {"monthly_micros": changed.monthly_micros, "storage_bytes": changed.storage_bytes}
    show({"user_id": changed.user_id, **limits}, as_json, f"Set the limits of {account}.")


def _limit(text: str, option: str) -> int | None:
    """Return a limit as stored, in millionths of a dollar or in bytes: None is the server's default, -1 is no limit."""
    if text in ("default", "none"):
        return None if text == "default" else -1
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= MAX_LIMIT:
        raise typer.BadParameter(f"{option} is a number from 0 to {MAX_LIMIT:,}, `none` or `default`, not {text!r}")
    return round(amount * 1_000_000)


@users.command("delete")
def delete_user(account: AccountName, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete an account with its projects and agents.

    Its tokens stop working at once.
    """
    from artel.auth.deletion import delete_account
    from artel.container import task_workspaces
    from artel.settings import load_settings

    confirm(f"Delete {account} with all its projects and agents?", yes)
    deleted = _with_database(lambda database: database.run(delete_account, account))
    settings = load_settings()
    task_workspaces(settings).remove(deleted.agent_ids)
    if not _told_to_nodes(settings, deleted.user_id, deleted.project_ids):
        name = f"user{deleted.user_id}_project"
        typer.echo(
            f"Nodes were not told. In their folders, delete files/{name}* and work/{name}*, and the rows of {name}* in "
            "answers.db and memory.db. Restart the nodes of `artel up`.",
            err=True,
        )
    show({"deleted": account}, as_json, f"Deleted {account}.")


def _told_to_nodes(settings: "Settings", user_id: int, project_ids: list[int]) -> bool:
    """Return whether all nodes are told to forget projects."""
    import asyncio

    from artel.errors import ArtelError
    from artel.projects.node_notifications import TELL_SECONDS, tell_nodes

    if not project_ids:
        return True
    if settings.bus_url is None:
        return settings.nodes_dir is None
    url = settings.bus_url.get_secret_value()

    async def tell() -> bool:
        from artel.bus.rabbit import RabbitSender  # lazy: slow to import

        sender = await RabbitSender.connect(url, deadline_seconds=TELL_SECONDS)
        try:
            return await tell_nodes(sender, user_id, project_ids)
        finally:
            await sender.close()

    try:
        return asyncio.run(tell())
    except ArtelError:  # the account is deleted already, so a URL that is wrong fails nothing
        return False


def _new_login(email: str, prompt: str) -> tuple[str, str]:
    """Ask for a password; return the e-mail address and the password hash, validated as for a registration."""
    from pydantic import ValidationError

    from artel.auth.passwords import hash_password
    from artel.contract.accounts import Registration

    try:
        registration = Registration.model_validate({"email": email, "password": secret_from_user(prompt, twice=True)})
    except ValidationError as invalid:
        reasons = "; ".join(f"{error['loc'][0]}: {error['msg']}" for error in invalid.errors())
        raise typer.BadParameter(reasons) from None
    return registration.email, hash_password(registration.password.get_secret_value())


def _settings(log_level: str) -> "Settings":
    """Return the settings of the server on this machine, and log only from a level on."""
    from artel.logs import configure_logs
    from artel.settings import load_settings

    settings = load_settings()
    configure_logs(settings.log_format, log_level)
    return settings


def _with_database(use: "Callable[[Database], Awaitable[T]]") -> T:
    import asyncio

    from artel.container import usable_database
    from artel.data_folder import DataFolder

    settings = _settings("warning")

    async def run() -> T:
        DataFolder.open(settings.data_dir)
        async with usable_database(settings) as database:
            return await use(database)

    return asyncio.run(run())


# The database


@database.callback()
def _database() -> None:
    """Manage the database."""


@database.command("upgrade")
def upgrade_database(as_json: AsJson = False) -> None:
    """Upgrade the database to the schema of this version. Embedded servers do this when they start."""
    from artel.data_folder import DataFolder
    from artel.db import schema
    from artel.db.engine import open_database

    settings = _settings("error")
    DataFolder.open(settings.data_dir)
    engine = open_database(settings).engine
    before, after = schema.upgrade(engine)
    engine.dispose()
    sentence = f"The database is already at schema {after}." if before == after else f"Upgraded to schema {after}."
    show({"before": before, "after": after}, as_json, sentence)


# The memory of agents


@memory.command("install-embeddings")
def install_embeddings(
    again: Annotated[bool, typer.Option("--again", help="Download it even if it is installed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Install another embedding model, MiniLM (90 MB).

    It is better than the built-in one for English paraphrases, worse for other languages, and ten times slower.
    """
    from artel.data_folder import DataFolder
    from artel.settings import load_settings
    from artel.vector_index.embedder import MINILM
    from artel.vector_index.install import install_model
    from artel.vector_index.minilm import find_model

    settings = load_settings()
    folder = settings.data_dir / "embeddings"
    existing = None if again else find_model(folder)
    if existing is None:
        DataFolder.open(settings.data_dir)
        install_model(folder)
    sentence = f"The model {'was already' if existing else 'is'} in {existing or folder}."
    if settings.embedding_model not in ("minilm", MINILM):
        sentence += " To use it, set ARTEL_EMBEDDING_MODEL=minilm. The next start reindexes all memories."
    show({"folder": str(existing or folder), "installed": existing is None}, as_json, sentence)


@memory.command("reindex")
def reindex(as_json: AsJson = False) -> None:
    """Rebuild the index of all memories from the database. Stop servers with an embedded index first."""
    import asyncio

    from artel.container import usable_database, usable_memories
    from artel.data_folder import DataFolder

    settings, shows_progress = _settings("error"), sys.stderr.isatty() and not as_json

    async def run() -> int:
        with closing(DataFolder.open(settings.data_dir, lock_beside=settings.sqlite_file)):
            async with usable_database(settings) as database, usable_memories(settings, database) as memories:
                total = await memories.rebuild_index()
                while await memories.indexer.step():
                    if shows_progress:
                        left = (await memories.health(count_waiting=True)).waiting
                        typer.echo(f"\r{total - left} of {total} memories ", nl=False, err=True)
                return total

    indexed = asyncio.run(run())
    if shows_progress:
        typer.echo("", err=True)
    show({"indexed": indexed}, as_json, f"Indexed {indexed} memories.")

"""Request and response bodies for administrators: accounts, the audit log, usage, and the state of the server."""

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from artel.contract.accounts import UserAccount
from artel.contract.http import Email, Password, RequestBody, ResponseBody
from artel.contract.spaces import UsageSum

_LINK = "Path on this server that signs a browser in once, to choose a password; null if the password was given."


class NewUser(RequestBody):
    """A new account; without a password its user gets a one-time link."""

    email: Email = Field(examples=["ada@example.org"])
    password: Password | None = Field(default=None, examples=["correct horse battery staple"])


class NewPassword(RequestBody):
    """A new password of a user; without one the user gets a one-time link."""

    password: Password | None = Field(default=None, examples=["seven green bottles on the wall"])


class SignInLink(ResponseBody):
    """A one-time link for a user without a password. It is shown only once."""

    link: str | None = Field(description=_LINK, examples=["/#code=Zm9vYmFyYmF6cXV4"])
    link_expires_at: datetime | None


class NewUserAccount(UserAccount):
    """A new account, with its one-time link."""

    link: str | None = Field(description=_LINK, examples=["/#code=Zm9vYmFyYmF6cXV4"])
    link_expires_at: datetime | None


class AuditEntry(ResponseBody):
    """An entry of the server's audit log."""

    id: int = Field(examples=[42])
    at: datetime
    actor: str = Field(
        description="Address of the account, or `operator` (command line), `server`, `unknown` (nobody signed in).",
        examples=["ada@example.org"],
    )
    actor_id: int | None = Field(examples=[1])
    action: str = Field(examples=["limits_changed"])
    target: str = Field(description="The account, project, node or provider.", examples=["bob@example.org"])
    target_user_id: int | None = Field(description="The account that it is about, if any.", examples=[2])
    detail: str = Field(examples=["monthly_micros=20000000"])


class UsageOfDay(UsageSum):
    """Usage of all users on one day."""

    day: date = Field(description="Day on which the turns ended (UTC).")


class UsageOfUser(UsageSum):
    """Usage of one user."""

    user_id: int = Field(examples=[2])
    email: str | None = Field(examples=["ada@example.org"])


class UsageOfModel(UsageSum):
    """Usage of one model."""

    model: str = Field(examples=["gpt-4o"])


class ServerUsage(ResponseBody):
    """Usage of all accounts, without deleted projects."""

    first_day: date
    last_day: date
    sum: UsageSum
    by_day: list[UsageOfDay] = Field(description="Days with usage, oldest first.")
    by_user: list[UsageOfUser] = Field(description="The 100 most expensive ones.")
    by_model: list[UsageOfModel] = Field(description="The 100 most expensive ones.")
    users: int = Field(description="Number of users with usage.", examples=[3])
    models: int = Field(description="Number of models with usage.", examples=[2])


class SystemPart(ResponseBody):
    """A part of the server, and whether it works."""

    part: str = Field(examples=["database"])
    verdict: Literal["ok", "warning", "failed"]
    detail: str = Field(description="What was found, without credentials.", examples=["answers, schema 0020"])
    advice: str = Field(description="What to do; empty if nothing.", examples=[""])


class ServerProcess(ResponseBody):
    """A process that runs worker spaces."""

    id: str
    spaces: int = Field(description="Worker spaces that it holds.", examples=[4])
    is_alive: bool = Field(description="Whether it has renewed its lease in time.")


class DataFolderSize(ResponseBody):
    """The size of the data folder of the process that answers."""

    path: str
    bytes: int
    files: int
    is_complete: bool = Field(description="False: it has more files than were counted.")


class SystemState(ResponseBody):
    """The state of the server, as `artel doctor` sees it on its machine."""

    version: str = Field(examples=["0.1.0"])
    python: str = Field(examples=["3.12.4"])
    role: str = Field(description="Of the process that answers: all, api or host.", examples=["all"])
    started_at: datetime
    database: Literal["sqlite", "postgresql"]
    schema_revision: str | None = Field(description="Of the database.", examples=["0020"])
    schema_needed: str = Field(description="By this version.", examples=["0020"])
    accounts: int = Field(examples=[3])
    nodes: int = Field(description="Nodes that are not forgotten.", examples=[0])
    memories_waiting: int = Field(description="Memories that are not in the index yet.", examples=[0])
    data_folder: DataFolderSize
    processes: list[ServerProcess] = Field(description="Empty for a server with SQLite: it is one process.")
    parts: list[SystemPart]

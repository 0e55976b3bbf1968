"""The one place that builds the server's parts and takes them down again."""

from dataclasses import dataclass

from artel.auth.jwks import KeySet
from artel.auth.login import Login
from artel.auth.passwords import Passwords
from artel.auth.secret import load_or_make_secret
from artel.auth.tokens import Tokens
from artel.data_folder import DataFolder
from artel.db import schema
from artel.db.engine import Database
from artel.projects.projects import ProjectRules
from artel.settings import Settings


@dataclass(frozen=True, slots=True)
class Container:
    """The parts of a running server."""

    settings: Settings
    folder: DataFolder
    database: Database
    passwords: Passwords
    tokens: Tokens
    login: Login
    project_rules: ProjectRules

    @classmethod
    async def open(cls, settings: Settings) -> "Container":
        """Build everything; raise, with nothing left open, when a part can't work."""
        folder = DataFolder.open(settings.data_dir, exclusive=settings.is_embedded)
        try:
            database = open_database(settings)
            try:
                if settings.is_embedded:
                    schema.upgrade(database.engine)
                else:
                    await database.read(schema.require_head)
                return cls._build(settings, folder, database)
            except BaseException:
                await database.close()
                raise
        except BaseException:
            folder.close()
            raise

    @classmethod
    def _build(cls, settings: Settings, folder: DataFolder, database: Database) -> "Container":
        passwords = Passwords()
        tokens = make_tokens(settings)
        return cls(
            settings=settings,
            folder=folder,
            database=database,
            passwords=passwords,
            tokens=tokens,
            login=Login(database, passwords, tokens),
            project_rules=ProjectRules(
                max_projects=settings.max_projects_per_user,
                max_agents=settings.max_agents_per_project,
                planner_model=settings.planner_model,
            ),
        )

    async def close(self) -> None:
        """Take everything down, in the reverse order."""
        self.passwords.close()
        await self.database.close()
        self.folder.close()


def open_database(settings: Settings) -> Database:
    """Answer the configured database, unconnected."""
    return Database(
        settings.sqlalchemy_url,
        connections=settings.database_connections,
        synchronous=settings.sqlite_synchronous,
    )


def make_tokens(settings: Settings) -> Tokens:
    """Answer what issues and verifies tokens."""
    secret = settings.jwt_secret.get_secret_value() if settings.jwt_secret else load_or_make_secret(settings.data_dir)
    keys = KeySet(settings.jwks_url.get_secret_value()) if settings.jwks_url else None
    return Tokens(secret, settings.token_lifetime_seconds, keys, settings.issuer or "", settings.audience or "")

"""Signing in: `artel login`, `logout`, `link`, `token`, `password` and `sessions`."""

import os
from typing import Annotated
from urllib.parse import quote

import typer

from artel.cli.connection import connect
from artel.cli.group import QuickGroup
from artel.cli.output import AsJson, Server, secret_from_user, show, table
from artel.errors import ArtelError, Kind

sessions = typer.Typer(help="Where you are signed in.", no_args_is_help=True, cls=QuickGroup)


def login(
    server: Server = None,
    email: Annotated[str | None, typer.Option(help="Your e-mail address; asked for if missing.")] = None,
    register: Annotated[bool, typer.Option("--register", help="Make the account first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Log in to a server, for the commands that follow. The password is asked for, or read from standard input."""
    from artel.client.api_client import ApiClient
    from artel.client.credentials import Credentials

    credentials = Credentials.load()
    url = credentials.server(server)
    address = email or typer.prompt("E-mail", err=True)
    password = secret_from_user("Password", twice=register)
    with ApiClient(url) as client:
        if register:
            token = client.call("POST", "/auth/register", json={"email": address, "password": password})
        else:
            token = client.call("POST", "/auth/token", data={"username": address, "password": password})
    credentials.remember(url, token["access_token"])
    show({"server": url, "email": address}, as_json, f"Logged in to {url} as {address}.")
    if os.environ.get("ARTEL_TOKEN"):
        typer.echo("Note: ARTEL_TOKEN is set and wins over this login.", err=True)


def token(server: Server = None) -> None:
    """Print the token of the login to a server, for curl and other programs. Whoever has it can do what you can."""
    from artel.client.credentials import Credentials

    credentials = Credentials.load()
    typer.echo(credentials.token(credentials.server(server)))


def link(server: Server = None, as_json: AsJson = False) -> None:
    """Print a link that signs a browser in. It works once, within a minute."""
    with connect(server) as client:
        made = client.call("POST", "/auth/codes")
        address = f"{client.server}/#code={made['code']}"
    show({"link": address, "expires_in": made["expires_in"]}, as_json, address)


def logout(server: Server = None, as_json: AsJson = False) -> None:
    """End the login to a server."""
    from artel.client.api_client import ApiClient
    from artel.client.credentials import Credentials

    credentials = Credentials.load()
    url = credentials.server(server)
    token = credentials.tokens.get(url)
    if token is not None:
        try:
            with ApiClient(url, token) as client:
                client.call("POST", "/auth/logout")
        except ArtelError as failure:
            if failure.kind is not Kind.UNAUTHENTICATED:  # else it had ended already
                typer.echo(f"artel: the server did not end the login: {failure.detail}", err=True)
    known = credentials.forget(url)
    sentence = f"Logged out of {url}." if known else f"There was no login to {url}."
    show({"server": url, "logged_out": known}, as_json, sentence)


def password(server: Server = None, as_json: AsJson = False) -> None:
    """Change your password; every other login ends. Both are asked for, or read from two lines of standard input."""
    with connect(server) as client:
        old = secret_from_user("Old password")
        new = secret_from_user("New password", twice=True)
        client.call("POST", "/auth/password", json={"old_password": old, "new_password": new})
    show({"changed": True}, as_json, "The password is changed. Every other login has ended.")


@sessions.command("list")
def list_sessions(server: Server = None, as_json: AsJson = False) -> None:
    """List where you are signed in, the most recently used first."""
    with connect(server) as client:
        rows = client.all_items("/auth/sessions")
    table(rows, ("id", "kind", "label", "last_used_at", "is_current"), as_json, "You are signed in nowhere.")


@sessions.command("revoke")
def revoke_session(
    session_id: Annotated[str, typer.Argument(help="The id that `artel sessions list` shows.")],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """End one of your logins.

    What was opened with it ends within seconds.
    """
    with connect(server) as client:
        client.call("DELETE", f"/auth/sessions/{quote(session_id, safe='')}")
    show({"revoked": session_id}, as_json, f"Ended {session_id}.")

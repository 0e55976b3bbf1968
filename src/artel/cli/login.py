"""Logins: `artel login`, `logout`, `link`, `token`, `password` and `sessions`."""

import os
from typing import Annotated
from urllib.parse import quote

import typer

from artel.cli.command_line import AsJson, Server, command_group, connect
from artel.cli.output import SHORT_CHARACTERS, ago, one_line, say, secret_from_user, short_id, show, table
from artel.errors import ArtelError, Kind

sessions = command_group("Manage your logins.")


def login(
    server: Server = None,
    email: Annotated[str | None, typer.Option(help="Your e-mail address. Default: ask for it.")] = None,
    register: Annotated[bool, typer.Option("--register", help="Create the account first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Log in to a server. The password is asked for, or read from standard input."""
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
        typer.echo("Note: ARTEL_TOKEN is set and overrides this login.", err=True)


def token(server: Server = None) -> None:
    """Print the token of your login, for curl and other programs. Keep it secret: it gives access to your account."""
    from artel.client.credentials import Credentials

    credentials = Credentials.load()
    typer.echo(credentials.token(credentials.server(server)))


def link(server: Server = None, as_json: AsJson = False) -> None:
    """Print a link that logs a browser in. It works once, within a minute."""
    with connect(server) as client:
        created = client.call("POST", "/auth/codes")
        url = f"{client.server}/#code={created['code']}"
    show({"link": url, "expires_in": created["expires_in"]}, as_json, url)


def logout(server: Server = None, as_json: AsJson = False) -> None:
    """Log out of a server."""
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
            if failure.kind is not Kind.UNAUTHENTICATED:  # else the login has already ended
                say(f"artel: the server did not end the login: {failure.detail}", err=True)
    was_logged_in = credentials.forget(url)
    sentence = f"Logged out of {url}." if was_logged_in else f"Not logged in to {url}."
    show({"server": url, "logged_out": was_logged_in}, as_json, sentence)


def password(server: Server = None, as_json: AsJson = False) -> None:
    """Change your password and end all other logins.

    The old and the new password are asked for, or read from two lines of standard input.
    """
    with connect(server) as client:
        old = secret_from_user("Old password")
        new = secret_from_user("New password", twice=True)
        client.call("POST", "/auth/password", json={"old_password": old, "new_password": new})
    show({"changed": True}, as_json, "Password changed. All other logins have ended.")


@sessions.command("list")
def list_sessions(server: Server = None, as_json: AsJson = False) -> None:
    """List your logins, most recently used first; * marks this one."""
    with connect(server) as client:
        rows = client.all_items("/auth/sessions")
    shown = [
        {
            "": "*" if login["is_current"] else "",
            "id": short_id(login["id"]),
            "kind": login["kind"],
            "used": ago(login["last_used_at"]),
            "label": one_line(login["label"]),
        }
        for login in rows
    ]
    table(rows if as_json else shown, ("", "id", "kind", "used", "label"), as_json, "No logins.")


@sessions.command("revoke")
def revoke_session(
    session_id: Annotated[str, typer.Argument(help="The id in `artel sessions list`, short or whole.")],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """End one of your logins.

    Its open connections are closed within seconds.
    """
    with connect(server) as client:
        if len(session_id) == SHORT_CHARACTERS:
            logins = [login["id"] for login in client.all_items("/auth/sessions")]
            found = [login for login in logins if short_id(login) == session_id]
            session_id = found[0] if len(found) == 1 else session_id
        client.call("DELETE", f"/auth/sessions/{quote(session_id, safe='')}")
    show({"revoked": session_id}, as_json, f"Ended {session_id}.")

"""`artel login`, `artel logout`, `artel token`."""

import os
from typing import Annotated

import typer

from artel.cli.output import AsJson, Server, secret_from_user, show


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


def logout(server: Server = None, as_json: AsJson = False) -> None:
    """Forget the login to a server."""
    from artel.client.credentials import Credentials

    credentials = Credentials.load()
    url = credentials.server(server)
    known = credentials.forget(url)
    sentence = f"Logged out of {url}." if known else f"There was no login to {url}."
    show({"server": url, "logged_out": known}, as_json, sentence)

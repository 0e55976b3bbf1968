"""The commands of administrators for models: `artel models list|add|test|remove|default`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from artel.cli.command_line import AsJson, Server, Yes, command_group, connect
from artel.cli.output import confirm, say, secret_from_user, show, table
from artel.errors import ArtelError, Kind

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient

KINDS = "openai, anthropic, gemini, mistral, openrouter, ollama, lmstudio, openai_compatible"
WITHOUT_KEY = ("ollama", "lmstudio", "openai_compatible")
MAX_SHOWN = 10
COLUMNS = ("id", "provider", "input", "output", "window", "source", "allowed")
PROVIDER_COLUMNS = ("id", "name", "kind", "key", "status", "models", "source", "address")

ProviderName = Annotated[str, typer.Argument(help="The provider's number or name in `artel models list --providers`.")]

models = command_group("Models and their providers (changes: for administrators).")


class NoSuchProvider(ArtelError, kind=Kind.NOT_FOUND, code="provider_not_found"):
    """The server has no such provider."""


@models.command("list")
def list_models(
    providers: Annotated[bool, typer.Option("--providers", help="List the providers instead.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the models with their price per million tokens."""
    with connect(server) as client:
        if providers:
            found = client.all_items("/admin/providers")
            rows = found if as_json else [_provider_row(each) for each in found]
            table(rows, PROVIDER_COLUMNS, as_json, "No providers. Add one: artel models add ollama")
            return
        answer = client.call("GET", "/my/models")
    if as_json:
        show(answer, as_json)
        return
    table([_model_row(each) for each in answer["items"]], COLUMNS, as_json, "No models. Test: artel models test NAME")
    say(f"New agents use {answer['default_model']}, plans {answer['planner_model']}.")
    if answer["demo"]:
        say("No model is configured, so the demo brain answers. Add one: artel models add ollama")


@models.command("add")
def add_provider(
    kind: Annotated[str, typer.Argument(help=f"One of {KINDS}.")],
    url: Annotated[
        str | None, typer.Option("--url", help="Address of the API. Default: the provider's own, or this machine.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="A name for an OpenAI-compatible server.")] = None,
    with_key: Annotated[
        bool | None, typer.Option("--key/--no-key", help="Whether it needs a key. Default: as usual for its kind.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Add a provider of models and test it. The key is asked for, or read from standard input."""
    needs_key = kind not in WITHOUT_KEY if with_key is None else with_key
    body = {"kind": kind, "name": name, "base_url": url}
    if needs_key:
        body["api_key"] = secret_from_user("Key")
    with connect(server) as client:
        added = client.call("POST", "/admin/providers", json={key: value for key, value in body.items() if value})
        tested = client.call("POST", f"/admin/providers/{added['id']}/test")
    show(tested, as_json, f"Added {tested['name']} ({tested['id']}). {_result(tested)}")


@models.command("test")
def try_provider(provider: ProviderName, server: Server = None, as_json: AsJson = False) -> None:
    """Test a provider: ask it for its models with the stored key."""
    with connect(server) as client:
        tested = client.call("POST", f"/admin/providers/{_provider_id(client, provider)}/test")
    show(tested, as_json, f"{tested['name']}: {_result(tested)}")


@models.command("remove")
def remove_provider(provider: ProviderName, yes: Yes = False, server: Server = None, as_json: AsJson = False) -> None:
    """Remove a provider with its key. Agents that use its models need others then."""
    confirm(f"Remove the provider {provider}?", yes)
    with connect(server) as client:
        number = _provider_id(client, provider)
        client.call("DELETE", f"/admin/providers/{number}")
    show({"removed": number}, as_json, f"Removed {provider}.")


@models.command("default")
def default_model(
    model: Annotated[str | None, typer.Argument(help="The model, as `artel models list` names it.")] = None,
    planner: Annotated[str | None, typer.Option("--planner", help="The model that plans.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show or choose the model of new agents and the one that plans. Agents that exist keep theirs."""
    chosen = {"default_model": model, "planner_model": planner}
    changes = {name: value for name, value in chosen.items() if value is not None}
    with connect(server) as client:
        method, body = ("PATCH", {"json": changes}) if changes else ("GET", {})
        settings = client.call(method, "/admin/settings", **body)
    if as_json:
        show(settings, as_json)
        return
    rows = {"new agents": settings["default_model"], "planning": settings["planner_model"]}
    show({name: f"{each['value']} ({_source(each)})" for name, each in rows.items()}, as_json)


def _provider_id(client: "ApiClient", provider: str) -> int:
    """Return the number of a stored provider by its number, name or kind."""
    found = [each for each in client.all_items("/admin/providers") if each["id"] is not None]
    for each in found:
        if provider.lower() in (str(each["id"]), each["name"].lower(), each["prefix"]):
            return int(each["id"])
    names = ", ".join(f"{each['name']} ({each['id']})" for each in found) or "none"
    raise NoSuchProvider(f"There is no stored provider {provider}. Those that can be changed: {names}.")


def _result(tested: dict[str, Any]) -> str:
    if tested["status"] != "ok":
        return f"The test failed: {tested['error']}"
    names = tested["models"]
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    listed = ", ".join(names[:MAX_SHOWN]) or "none yet"
    return f"It answers. Its models: {listed}{more}."


def _model_row(model: dict[str, Any]) -> dict[str, Any]:
    prices = {name: model[f"{name}_usd_per_million"] for name in ("input", "output")}
    shown = {name: "unknown" if price is None else f"${price:g}" for name, price in prices.items()}
    return {**model, **shown, "window": model["context_window"]}


def _provider_row(provider: dict[str, Any]) -> dict[str, Any]:
    hint = f"…{provider['key_hint']}" if provider["key_hint"] else "set" if provider["key_set"] else "none"
    return {
        **provider,
        "key": hint,
        "models": len(provider["models"]),
        "source": provider["variable"] or provider["source"],
        "address": provider["base_url"],
    }


def _source(setting: dict[str, Any]) -> str:
    return str(setting["variable"] if setting["source"] == "environment" else setting["source"])

"""`artel memory …`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from artel.cli.group import QuickGroup
from artel.cli.output import AsJson, show

if TYPE_CHECKING:
    from artel.agent_memory.service import Memories

app = typer.Typer(help="Manage the memory of agents (for the server operator).", no_args_is_help=True, cls=QuickGroup)


@app.command("install-embeddings")
def install_embeddings(
    again: Annotated[bool, typer.Option("--again", help="Download it even if it is installed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Install the built-in embedding model (90 MB).

    With it, memories are found by meaning, not only by keywords.
    """
    from artel.data_folder import DataFolder
    from artel.settings import load_settings
    from artel.vector_index.install import install_model
    from artel.vector_index.minilm import find_model

    settings = load_settings()
    folder = settings.data_dir / "embeddings"
    existing = None if again else find_model(folder)
    if existing is None:
        DataFolder.open(settings.data_dir)
        install_model(folder)
    sentence = f"The model is in {existing or folder}. " + (
        "It was already installed." if existing else "Servers use it, and reindex all memories, when they start again."
    )
    show({"folder": str(existing or folder), "installed": existing is None}, as_json, sentence)


@app.command("reindex")
def reindex(as_json: AsJson = False) -> None:
    """Rebuild the index of all memories from the database. Stop servers with an embedded index first."""
    import asyncio

    from artel.container import usable_database, usable_memories
    from artel.data_folder import DataFolder
    from artel.logs import configure_logs
    from artel.settings import load_settings

    settings = load_settings()
    configure_logs(settings.log_format, "error")

    async def run() -> int:
        folder = DataFolder.open(settings.data_dir, lock_beside=settings.sqlite_file)
        try:
            async with usable_database(settings) as database, usable_memories(settings, database) as memories:
                return await _reindex(memories, quiet=as_json or not sys.stderr.isatty())
        finally:
            folder.close()

    indexed = asyncio.run(run())
    show({"indexed": indexed}, as_json, f"Indexed {indexed} memories.")


async def _reindex(memories: "Memories", *, quiet: bool) -> int:
    """Rebuild the index; return the number of memories."""
    total = await memories.rebuild_index()
    while await memories.indexer.step():
        if not quiet:
            left = (await memories.health(count_waiting=True)).waiting
            typer.echo(f"\r{total - left} of {total} memories ", nl=False, err=True)
    if not quiet:
        typer.echo("", err=True)
    return total

"""How well memories are found: mean reciprocal rank of facts among other texts, in three languages and across them.

Every fact of retrieval_facts.json has a question in its own words and a paraphrase. The other texts are paragraphs of
the documentation (English) and texts of the web UI (Russian, Chinese). `python -m bench.retrieval` prints a table.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

from artel.vector_index.edge import EdgeStore
from artel.vector_index.embedder import Embedder, NoEmbedder, artel_embedder, minilm_embedder
from artel.vector_index.minilm import find_model
from artel.vector_index.search import search_memory
from artel.vector_index.store import MAX_TOP_K, Point
from bench.figure import Figure
from bench.processes import ROOT

BENCH = "retrieval"
LANGUAGES = ("en", "ru", "zh")
OTHER_TEXTS = 400  # per language at most
START = datetime(2026, 1, 1, tzinfo=UTC)
QUESTION, PARAPHRASE = 1, 2

Fact = dict[str, list[str]]
# Language of the question, language of the memories, and which of the two questions.
SETS = [
    *product(LANGUAGES, LANGUAGES, (QUESTION,)),
    *((language, language, PARAPHRASE) for language in LANGUAGES),
]


def run() -> Iterator[Figure]:
    """Measure the default model with the search that the server uses."""
    found = asyncio.run(_measure(artel_embedder()))
    for (question, memory, kind), value in found.items():
        across = "" if question == memory else f", asked in {question}"
        words = "paraphrased" if kind == PARAPHRASE else "asked in its words"
        yield Figure(BENCH, f"memories found, {memory}{across}, {words}, mean reciprocal rank", value, "%")


def other_texts(language: str) -> list[str]:
    """Return texts that answer no question."""
    texts: list[str] = []
    if language == "en":
        for path in sorted((ROOT / "docs").rglob("*.md")):
            for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
                text = " ".join(block.split())
                if 60 < len(text) < 600 and not text.startswith(("|", "#", "```", "<")):
                    texts.append(text)
    else:
        for path in sorted((ROOT / "web" / "src" / "i18n" / language).glob("*.ts")):
            quoted = re.findall(r'"([^"\n]{12,600})"', path.read_text(encoding="utf-8"))
            texts += [text for text in quoted if not text.isascii()]
    return texts[:OTHER_TEXTS]


async def _measure(embedder: Embedder) -> dict[tuple[str, str, int], float]:
    """Return the mean reciprocal rank of each set, in per cent."""
    facts: list[Fact] = json.loads(Path(__file__).with_name("retrieval_facts.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        store = EdgeStore(Path(folder), model=embedder.name, dimensions=embedder.dimensions)
        for language in LANGUAGES:
            texts = [fact[language][0] for fact in facts] + other_texts(language)
            vectors = await embedder.embed(texts) if embedder.dimensions else [None] * len(texts)
            await store.upsert(
                [
                    Point(f"{number:06}", _collection(language), text, vector, "fact", True, START)
                    for number, (text, vector) in enumerate(zip(texts, vectors, strict=True))
                ]
            )
        results = {}
        for question, memory, kind in SETS:
            total = 0.0
            for number, fact in enumerate(facts):
                hits = await search_memory(store, embedder, _collection(memory), fact[question][kind], MAX_TOP_K)
                ids = [int(hit.id) for hit in hits]
                total += 1 / (1 + ids.index(number)) if number in ids else 0
            results[question, memory, kind] = 100 * total / len(facts)
        await store.close()
    await embedder.close()
    return results


def _collection(language: str) -> str:
    return f"user1_project1_{language}_context"


def main() -> None:
    """Print a table of all models that are installed."""
    embedders: list[Embedder] = [NoEmbedder(), artel_embedder()]
    if find_model(None):
        embedders.append(minilm_embedder())
    measured = {embedder.name: asyncio.run(_measure(embedder)) for embedder in embedders}
    print("| question, memories |", *(f"{name} |" for name in measured))
    print("|---|" + "---|" * len(measured))
    for question, memory, kind in SETS:
        label = f"{question}, {memory}{', paraphrased' if kind == PARAPHRASE else ''}"
        print(f"| {label} |", *(f"{values[question, memory, kind]:.1f} |" for values in measured.values()))


if __name__ == "__main__":
    main()

"""Every built-in tool has a name and a description for people, in every language of the web UI."""

import re
from pathlib import Path

import pytest

from artel.tools.api_call import ApiCall
from artel.tools.catalogue import SCHEMAS
from artel.tools.node_files import FileRead, FileWrite
from artel.tools.programs import CodeExecute, Shell

CATALOGUES = Path(__file__).parents[2] / "web" / "src" / "i18n"
BUILT_IN = {*SCHEMAS, *(tool.name for tool in (ApiCall, FileRead, FileWrite, CodeExecute, Shell))}


def texts(language: str, area: str, prefix: str) -> dict[str, str]:
    """Return the texts of a catalogue by tool."""
    source = (CATALOGUES / language / f"{area}.ts").read_text(encoding="utf-8")
    return dict(re.findall(rf'^  {prefix}_(\w+): "(.+)",$', source, re.MULTILINE))


@pytest.mark.parametrize("language", ["en", "ru", "zh"])
def test_every_built_in_tool_has_a_name_of_its_own_and_a_description(language: str) -> None:
    names, abouts = texts(language, "tools", "name"), texts(language, "toolTexts", "about")
    assert set(names) == set(abouts) == BUILT_IN
    assert len(set(names.values())) == len(names)
    assert not any("_" in text or "instructions" in text for text in [*names.values(), *abouts.values()])

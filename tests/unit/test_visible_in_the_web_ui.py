"""The web UI and the terminal escape the same characters of what a user approves."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from artel.cli.output import visible

ROOT = Path(__file__).parents[2]
EMOJI = "\u26a0\ufe0f \u2194\ufe0f a\ufe0f +\ufe0f<\ufe0f=\ufe0f>\ufe0f|\ufe0f~\ufe0f \r\n\t"
SCRIPT = """
const fs = require("node:fs");
const { transpileModule, ModuleKind } = require("typescript");
const compilerOptions = { module: ModuleKind.CommonJS, target: "es2022" };
const source = transpileModule(fs.readFileSync("src/state/visible.ts", "utf8"), { compilerOptions });
const loaded = { exports: {} };
new Function("module", "exports", source.outputText)(loaded, loaded.exports);
const { visible } = loaded.exports;
const escaped = [];
for (let number = 0; number < 0x110000; number++) {
  const text = String.fromCodePoint(number);
  if ((number < 0xd800 || number > 0xdfff) && visible(text) !== text) escaped.push([number, visible(text)]);
}
process.stdout.write(JSON.stringify([escaped, visible(process.argv[1], "\\n\\t")]));
"""


@pytest.mark.req("SEC-03.2")
def test_web_ui_escapes_the_same_characters_as_the_terminal() -> None:
    node = subprocess.run(
        [sys.executable, "scripts/web.py", "node"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    answer = subprocess.run([node, "-e", SCRIPT, EMOJI], cwd=ROOT / "web", capture_output=True, text=True, check=True)

    escaped, emoji = json.loads(answer.stdout)

    every = (chr(number) for number in range(0x110000) if not 0xD800 <= number <= 0xDFFF)
    assert escaped == [[ord(text), visible(text, "")] for text in every if visible(text, "") != text]
    assert emoji == visible(EMOJI)

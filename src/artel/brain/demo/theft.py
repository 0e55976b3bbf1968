"""An attempt to read the secrets of the connected folder, to show that the connector refuses each one."""

# ruff: noqa: RUF001 - Russian and Chinese have letters and signs that look like others

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from artel.brain.demo.user_words import Language, language_of, read_json

Call = tuple[str, dict[str, Any]]

_READ = "tool_read_file"
_TRIED = (".env", ".env.local", "../.env", ".git/config", "id_rsa")
_REQUEST = re.compile(
    r"(?i)\W{0,3}(?:(?:please|can you|could you) ){0,2}(?:try to )?steal (?:my |the )?\.env(?: file)?\W{0,3}"
    r"|\W{0,3}(?:попробуй(?:те)? )?украсть (?:мой )?\.env\W{0,3}"
    r"|\W{0,3}(?:请)?(?:试着)?偷(?:我的)? ?\.env\W{0,3}"
)
_TEXTS: dict[Language, dict[str, str]] = {
    "en": {
        "title": "I tried to read {count} files that may hold secrets.",
        "refused": "- `{path}`: refused. {error}",
        "read": "- `{path}`: it was read. Files like this one are better kept out of a connected folder.",
        "end": "The rules are on your machine: the connector decides, and writes each attempt into its log.",
        "no_tool": "For that I would need `{tool}`, a tool that this agent does not have.",
    },
    "ru": {
        "title": "Попыток прочитать файлы с возможными секретами: {count}.",
        "refused": "- `{path}`: отказано. {error}",
        "read": "- `{path}`: прочитан. Такие файлы лучше не держать в подключённой папке.",
        "end": "Правила действуют на вашей машине: решает коннектор, и каждая попытка есть в его журнале.",
        "no_tool": "Для этого нужен `{tool}`, а этого инструмента у агента нет.",
    },
    "zh": {
        "title": "我尝试读取 {count} 个可能含有机密的文件。",
        "refused": "- `{path}`：被拒绝。{error}",
        "read": "- `{path}`：已被读取。这类文件最好不要放在已连接的文件夹里。",
        "end": "规则在你的电脑上执行：由连接器决定，每次尝试都会写入它的日志。",
        "no_tool": "这需要 `{tool}`，而该智能体没有这个工具。",
    },
}


@dataclass(frozen=True)
class Theft:
    """Reads of files that agents must not see, one after the other."""

    language: Language
    tools: frozenset[str]

    @classmethod
    def wanted(cls, text: str, tools: frozenset[str]) -> "Theft | None":
        """Return the attempt that a text asks for, or None."""
        return cls(language_of(text), tools) if _REQUEST.fullmatch(text.strip()) else None

    def next_call(self, results: Sequence[str]) -> Call | None:
        """Return the next file to read."""
        if _READ not in self.tools or len(results) >= len(_TRIED):
            return None
        return _READ, {"path": _TRIED[len(results)]}

    def text(self, results: Sequence[str]) -> str:
        """Return what became of each attempt."""
        words = _TEXTS[self.language]
        if _READ not in self.tools:
            return words["no_tool"].format(tool=_READ)
        lines = [self._outcome(path, result) for path, result in zip(_TRIED, results, strict=False)]
        return "\n\n".join((words["title"].format(count=len(lines)), "\n".join(lines), words["end"]))

    def _outcome(self, path: str, result: str) -> str:
        words = _TEXTS[self.language]
        value = read_json(result)
        if not isinstance(value, dict) or value.get("success") is not False:
            return words["read"].format(path=path)
        return words["refused"].format(path=path, error=value.get("error") or "")

"""A review of the connected folder by counting: structure, open notes, README and tests."""

# ruff: noqa: RUF001 - Russian and Chinese have letters and signs that look like others

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from artel.brain.demo.user_words import Language, language_of, read_json
from artel.text import one_line

Part = Literal["structure", "notes", "readme", "tests"]
Call = tuple[str, dict[str, Any]]

SHOWN = 8
LINE_CHARACTERS = 120
KILOBYTE = 1_000
MAX_MATCHES = 100  # a search returns no more lines

_THING = r"(?:folder|directory|project|repo|repository|code ?base|code|workspace|files)"
# A focus may follow; another order ("and fix it") may not, because it would be lost.
_FOCUS = (
    r"(?:\W{1,3}(?:and )?(?:especially|particularly|in particular|above all|mainly|mostly|focus(?:ing)? on"
    r"|with (?:a |an )?(?:focus|emphasis) on"
    r"|for(?= (?:[\w-]{1,20} ){0,3}(?:bugs|problems|issues|errors|mistakes|todos|quality)\b)"
    r"|особенно|прежде всего|尤其|特别)"
    r"(?P<focus>(?!.*\b(?:and|then) (?:then )?(?:add|change|create|delete|draft|fix|implement|make|refactor|remove"
    r"|rename|research|update|write)\b).{1,80}))?"
)
_REQUESTS = tuple(
    re.compile(rf"(?i)\W{{0,3}}{words}{_FOCUS}\W{{0,3}}")
    for words in (
        (
            r"(?:(?:please|can you|could you) ){0,2}(?:review|analy[sz]e|check|inspect|audit|examine|explain|describe"
            r"|summari[sz]e|look (?:at|through|over)|go through) (?:(?:this|my|the|our|whole|entire|connected) ){0,3}"
            rf"{_THING}(?:,? please)?"
        ),
        rf"what(?:'s| is) in (?:this|my|the) {_THING}",
        (
            r"(?:пожалуйста,? )?(?:проверь|посмотри|изучи|разбери|проанализируй|опиши|просмотри|сделай (?:ревью|обзор))"
            r"(?:те)? (?:(?:на|эту|этот|мою|мой|всю|весь|наш|этой|этого|моего) ){0,2}"
            r"(?:папк\w{1,3}|проекта?|репозитори\w{1,2}|код\w{0,2}|каталога?|файлы)(?:,? пожалуйста)?"
        ),
        (
            r"(?:请|帮我){0,2}(?:审查|检查|分析|查看|看看|评审|解释|看一下)(?:一下)?(?:这个|我的|整个)?"
            r"(?:文件夹|目录|项目|仓库|代码库|代码)"
        ),
    )
)
# The tasks of the plan in all languages of the demo brain, and the kind of agent that fits each.
_KIND: dict[Part, str] = {"structure": "analysis", "notes": "code", "readme": "writing", "tests": "research"}
_TASKS: dict[Language, dict[Part, str]] = {
    "en": {
        "structure": "Look at the structure of this folder",
        "notes": "Find the open TODOs in this folder",
        "readme": "Check the README of this folder",
        "tests": "Look at the tests of this folder",
    },
    "ru": {
        "structure": "Посмотреть структуру этой папки",
        "notes": "Найти открытые TODO в этой папке",
        "readme": "Проверить README этой папки",
        "tests": "Посмотреть тесты этой папки",
    },
    "zh": {
        "structure": "查看这个文件夹的结构",
        "notes": "查找这个文件夹里的 TODO",
        "readme": "检查这个文件夹的 README",
        "tests": "查看这个文件夹的测试",
    },
}
_NAMED_PART: dict[Part, re.Pattern[str]] = {
    "structure": re.compile(r"(?i)structure|layout|структур|结构"),
    "notes": re.compile(r"(?i)todo|fixme|open notes|заметк|待办"),
    "readme": re.compile(r"(?i)readme|documentation|docs\b|документаци|文档"),
    "tests": re.compile(r"(?i)\btest|тест|测试"),
}
_PART_OF = {text.lower(): part for texts in _TASKS.values() for part, text in texts.items()}

_LIST, _READ, _SEARCH = "tool_list_directory", "tool_read_file", "tool_search_files"
_NOTES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_TESTS = re.compile(r"def test_|\bit\(['\"`]|\btest\(['\"`]|func Test|#\[test\]|@Test\b")
# No regular expressions, because the timeline shows the searches. " it(" does not match "split(".
_NOTE_WORDS = ("TODO", "FIXME", "XXX", "HACK")
_TEST_SEARCHES = {
    **dict.fromkeys((".py",), ("def test_",)),
    **dict.fromkeys((".js", ".ts", ".jsx", ".tsx", ".mjs"), ("test(", " it(")),
    **dict.fromkeys((".go",), ("func Test",)),
    **dict.fromkeys((".rs",), ("#[test]",)),
    **dict.fromkeys((".java", ".kt"), ("@Test",)),
}
MAX_TEST_SEARCHES = 2  # a whole review must fit into the ten tool calls of a task
_TEST_FILE = re.compile(r"(?i)(?:^|[_.-])tests?(?:[_.-]|$)|tests?\.\w{1,5}$")
_CODE = re.compile(
    r"\.?(?:py|[jt]sx?|go|rs|java|kt|[ch]|[ch]pp|cs|rb|php|swift|scala|sh|exs?|lua|r|jl|dart|vue)"
)  # the ending of a file name
# Results may have been cut to fit a model's window, so entries are parsed one by one.
_ENTRY = re.compile(r'"path": "([^"\\]{1,1024})", "type": "(file|directory)", "size": (\d{1,15})')
_MATCH = re.compile(r'"path": "([^"\\]{1,1024})", "line": (\d{1,9}), "text": "((?:[^"\\]|\\.){0,2000})"')
_HEADING = re.compile(r"(?m)^ {0,3}#{1,6} ([^\n]{1,200})$")
_SECTIONS: dict[Language, dict[str, str]] = {
    "en": {"install": "how to install it", "use": "how to use it", "test": "how to test it", "license": "its licence"},
    "ru": {"install": "как установить", "use": "как пользоваться", "test": "как тестировать", "license": "лицензия"},
    "zh": {"install": "如何安装", "use": "如何使用", "test": "如何测试", "license": "许可证"},
}
_SECTION_WORDS = {
    "install": re.compile(r"(?i)\binstall|\bpip |\bnpm |\bset ?up\b|установ|安装"),
    "use": re.compile(
        r"(?i)\busage\b|\bquick ?start|\bgetting started|\bexample|\brun\b|использ|запус|пример|使用|示例|运行"
    ),
    "test": re.compile(r"(?i)\btests?\b|\bpytest\b|тест|测试"),
    "license": re.compile(r"(?i)\blicen[sc]e|лиценз|许可"),
}

_TEXTS: dict[Language, dict[str, str]] = {
    "en": {
        "structure": "Files: {files} ({size}), folders: {folders}; most files are {kinds}.",
        "empty": "The folder is empty, or everything in it is hidden from agents.",
        "kinds": "By kind:",
        "kind": "- {kind}: {count} ({size})",
        "largest": "The largest:",
        "cut": "The list was too long to read; these are the numbers of its beginning.",
        "notes": "Open notes: {count} ({kinds}); files that have them: {files}.",
        "no_notes": "Open notes: none; no TODO, FIXME, XXX or HACK in the files.",
        "more": "- … and {count} more",
        "readme": "README: {name}, lines: {lines}, headings: {headings}.",
        "no_readme": "README: there is none.",
        "headings": "- Headings: {names}",
        "has": "- It says: {sections}",
        "lacks": "- Not found: {sections}",
        "tests": "Tests: {count}, in files: {files}; other files of code: {code}.",
        "no_tests": "Tests: none found; files of code: {code}.",
        "next_structure": "Next: begin reading in {name}.",
        "next_notes": "Next: look at {name}, which has the most of them.",
        "next_readme": "Next: write a README with {sections}.",
        "next_tests": "Next: write a first test for the code that changes most often.",
        "no_folder": "No folder is connected, so there is nothing to review. In your folder, run "
        "`artel connect . --project ID` (the page shows the command with the number of this project), or start "
        "`artel up` there. Then say it again.",
        "failed": "That did not work: {error}",
        "no_tool": "For that I would need `{tool}`, a tool that this agent does not have.",
        "title": "I went through the folder. I only count and compare; a real model could explain what it means.",
    },
    "ru": {
        "structure": "Файлы: {files}, папки: {folders}, всего {size}; больше всего {kinds}.",
        "empty": "Папка пуста, или всё в ней скрыто от агентов.",
        "kinds": "По видам:",
        "kind": "- {kind}: {count} ({size})",
        "largest": "Самые большие:",
        "cut": "Список слишком длинный; это числа для его начала.",
        "notes": "Открытые заметки: {count}, файлов: {files} ({kinds}).",
        "no_notes": "Открытые заметки: нет; ни TODO, ни FIXME, ни XXX, ни HACK.",
        "more": "- … и ещё {count}",
        "readme": "README: {name}, строк: {lines}, заголовков: {headings}.",
        "no_readme": "README: его нет.",
        "headings": "- Заголовки: {names}",
        "has": "- В нём есть: {sections}",
        "lacks": "- Не нашлось: {sections}",
        "tests": "Тесты: файлов {files}, тестов {count}, файлов с кодом {code}.",
        "no_tests": "Тесты: не найдены; файлов с кодом {code}.",
        "next_structure": "Дальше: начать чтение с {name}.",
        "next_notes": "Дальше: посмотреть {name}, там их больше всего.",
        "next_readme": "Дальше: написать README, в котором есть: {sections}.",
        "next_tests": "Дальше: написать первый тест для кода, который меняется чаще всего.",
        "no_folder": "Папка не подключена, смотреть нечего. Запустите в своей папке `artel connect . --project ID` "
        "(страница показывает команду с номером проекта) или запустите в ней `artel up`. Потом повторите просьбу.",
        "failed": "Не получилось: {error}",
        "no_tool": "Для этого нужен `{tool}`, а у этого агента его нет.",
        "title": "Я прошёл по папке. Я считаю и сравниваю по правилам; что это значит, сказала бы настоящая модель.",
    },
    "zh": {
        "structure": "文件：{files} 个，文件夹：{folders} 个，共 {size}；最多的是 {kinds}。",
        "empty": "文件夹是空的，或者里面的内容对智能体不可见。",
        "kinds": "按类型：",
        "kind": "- {kind}：{count}（{size}）",
        "largest": "最大的文件：",
        "cut": "列表太长，以上只是开头部分的数字。",
        "notes": "待办标记：{count} 处，分布在 {files} 个文件中（{kinds}）。",
        "no_notes": "待办标记：没有 TODO、FIXME、XXX 或 HACK。",
        "more": "- …… 还有 {count} 处",
        "readme": "README：{name} 有 {lines} 行、{headings} 个标题。",
        "no_readme": "README：没有。",
        "headings": "- 标题：{names}",
        "has": "- 里面写了：{sections}",
        "lacks": "- 没有找到：{sections}",
        "tests": "测试：{files} 个文件，{count} 个测试，代码文件 {code} 个。",
        "no_tests": "测试：没有找到，代码文件 {code} 个。",
        "next_structure": "下一步：从 {name} 开始读。",
        "next_notes": "下一步：先看 {name}，那里最多。",
        "next_readme": "下一步：写一份 README，包括：{sections}。",
        "next_tests": "下一步：先为最常改动的代码写一个测试。",
        "no_folder": "没有连接文件夹，没有可看的内容。请在你的文件夹里运行 `artel connect . --project ID`"
        "（页面上有带项目编号的命令），或者在那里启动 `artel up`，然后再说一遍。",
        "failed": "没有成功：{error}",
        "no_tool": "这需要 `{tool}`，而这个智能体没有这个工具。",
        "title": "我看过了这个文件夹。我只按规则计数和比较；其中的含义要由真正的模型来说。",
    },
}


def asks_for_review(text: str) -> bool:
    """Return whether the text asks for a review of the folder."""
    return _request_match(text) is not None


def _request_match(text: str) -> re.Match[str] | None:
    line = " ".join(text.split())
    if len(line) > LINE_CHARACTERS:
        return None
    return next((found for words in _REQUESTS if (found := words.fullmatch(line))), None)


def _parts(text: str) -> tuple[Part, ...]:
    """Return the parts of a review, beginning with those that the user wants to focus on."""
    found = _request_match(text)
    focus = (found and found["focus"]) or ""
    return tuple(sorted(_KIND, key=lambda part: not _NAMED_PART[part].search(focus)))


def review_tasks(text: str) -> list[tuple[str, str]]:
    """Return the tasks of a review, each with its kind of work."""
    return [(_TASKS[language_of(text)][part], _KIND[part]) for part in _parts(text)]


def introduction(request: str, results: Sequence[str]) -> str:
    """Return the overview of a review's results, or "" for other requests."""
    if not asks_for_review(request):
        return ""
    return _overview(results, _TEXTS[language_of(request)])


@dataclass(frozen=True, slots=True)
class Review:
    """A script that inspects parts of the folder with tools and reports what it counted."""

    parts: tuple[Part, ...]
    language: Language
    tools: frozenset[str]

    @classmethod
    def wanted(cls, text: str, tools: frozenset[str]) -> "Review | None":
        """Return the review that a text asks for, or None."""
        part = _PART_OF.get(text.lower().strip())
        if part is not None:
            return cls((part,), language_of(text), tools)
        return cls(_parts(text), language_of(text), tools) if asks_for_review(text) else None

    def next_call(self, results: Sequence[str]) -> Call | None:
        """Return the next tool call, depending on the results so far."""
        call = self._walk(results)[0]
        return call if call is not None and call[0] in self.tools else None

    def text(self, results: Sequence[str]) -> str:
        """Return the report."""
        words = _TEXTS[self.language]
        call, found = self._walk(results)
        if call is not None:  # no more calls are allowed, or the agent has no such tool
            found = [*found, words["no_tool"].format(tool=call[0])]
        return "\n\n".join([_overview(found, words), *found] if len(found) > 1 else found)

    def _walk(self, results: Sequence[str]) -> tuple[Call | None, list[str]]:
        """Return the first call without a result, and the reports of the parts before it."""
        words, left, found = _TEXTS[self.language], list(results), list[str]()
        for part in self.parts:
            answers: list[str] = []
            while (call := _call(part, answers)) is not None:
                if not left:
                    return call, found
                answers.append(left.pop(0))
                problem = _error(answers[-1])
                if problem and "connector" in problem:
                    return None, [words["no_folder"]]
                if problem:
                    found.append(words["failed"].format(error=one_line(problem, LINE_CHARACTERS)))
                    break
            else:
                found.append(_REPORTS[part](answers, words, self.language))
        return None, found


def _overview(found: Sequence[str], words: Mapping[str, str]) -> str:
    """Return the title and the first line of every report."""
    return "\n".join([words["title"], "", *(f"- {part.partition(chr(10))[0]}" for part in found)])


def _call(part: Part, answers: Sequence[str]) -> Call | None:
    """Return the next tool call for a part, after these answers."""
    everything = {"path": ".", "recursive": True}
    match part, len(answers):
        case (("structure" | "tests"), 0):
            return _LIST, everything
        case "tests", number:
            # For the most frequent kinds of files.
            kinds = Counter(_kind(path) for path, kind, _ in _entries(answers[0]) if kind == "file")
            queries = dict.fromkeys(query for kind, _ in kinds.most_common() for query in _TEST_SEARCHES.get(kind, ()))
            searches = list(queries)[:MAX_TEST_SEARCHES]
            return (_SEARCH, {"query": searches[number - 1]}) if number <= len(searches) else None
        case "notes", number if number < len(_NOTE_WORDS):
            return _SEARCH, {"query": _NOTE_WORDS[number]}
        case "readme", 0:
            return _LIST, {"path": "."}
        case "readme", 1:
            name = _readme(answers)
            return (_READ, {"path": name}) if name else None
    return None


def _structure(answers: Sequence[str], words: Mapping[str, str], _language: Language) -> str:
    entries = _entries(answers[0])
    files = [(path, size) for path, kind, size in entries if kind == "file"]
    if not files:
        return words["empty"]
    counts = Counter(_kind(path) for path, _ in files)
    sizes = Counter[str]()
    for path, size in files:
        sizes[_kind(path)] += size
    largest = sorted(files, key=lambda file: -file[1])[:3]
    first = next((path for path, _ in files if _name(path).lower().startswith("readme")), largest[0][0])
    lines = [
        words["structure"].format(
            files=len(files),
            folders=sum(kind == "directory" for _, kind, _ in entries),
            size=_size(sum(sizes.values())),
            kinds=", ".join(f"{kind} ({count})" for kind, count in counts.most_common(2)),
        ),
        "",
        words["kinds"],
        *(
            words["kind"].format(kind=kind, count=count, size=_size(sizes[kind]))
            for kind, count in counts.most_common(SHOWN)
        ),
        "",
        words["largest"],
        *(f"- {path} ({_size(size)})" for path, size in largest),
        "",
        *([words["cut"]] if _is_cut(answers[0]) else []),
        words["next_structure"].format(name=first),
    ]
    return "\n".join(lines)


def _notes(answers: Sequence[str], words: Mapping[str, str], _language: Language) -> str:
    matches = _matches(answers, _NOTES)
    if not matches:
        return words["no_notes"]
    files = Counter(path for path, _, _ in matches)
    kinds = Counter(found[1] for _, _, text in matches if (found := _NOTES.search(text)))
    lines = [
        words["notes"].format(
            count=_at_least(len(matches), answers),
            files=len(files),
            kinds=", ".join(f"{kind} {count}" for kind, count in kinds.most_common()),
        ),
        *(f"- {path}:{line} `{text.replace('`', chr(39))}`" for path, line, text in matches[:SHOWN]),
    ]
    if len(matches) > SHOWN:
        lines.append(words["more"].format(count=len(matches) - SHOWN))
    return "\n".join([*lines, "", words["next_notes"].format(name=files.most_common(1)[0][0])])


def _readme_report(answers: Sequence[str], words: Mapping[str, str], language: Language) -> str:
    sections = _SECTIONS[language]
    name = _readme(answers)
    if not name:
        all_sections = ", ".join(sections.values())
        return "\n\n".join([words["no_readme"], words["next_readme"].format(sections=all_sections)])
    text = _content(answers[1])
    headings = _HEADING.findall(text)
    has = [section for key, section in sections.items() if _SECTION_WORDS[key].search(text)]
    lacks = [section for section in sections.values() if section not in has]
    lines = [words["readme"].format(name=name, lines=len(text.splitlines()), headings=len(headings))]
    if headings:
        names = "; ".join(one_line(heading, LINE_CHARACTERS) for heading in headings[:SHOWN])
        lines.append(words["headings"].format(names=names))
    if has:
        lines.append(words["has"].format(sections=", ".join(has)))
    if lacks:
        lines.append(words["lacks"].format(sections=", ".join(lacks)))
    return "\n".join(lines)


def _tests(answers: Sequence[str], words: Mapping[str, str], _language: Language) -> str:
    files = [path for path, kind, _ in _entries(answers[0]) if kind == "file"]
    tests = [path for path in files if _TEST_FILE.search(_name(path))]
    code = sum(_CODE.fullmatch(_kind(path)) is not None for path in files if path not in tests)
    matches = _matches(answers[1:], _TESTS)
    found = len(matches)
    if not tests and not found:
        return "\n\n".join([words["no_tests"].format(code=code), words["next_tests"]])
    counts = Counter(path for path, _, _ in matches)
    lines = [words["tests"].format(files=len(tests), count=_at_least(found, answers[1:]), code=code)]
    shown = [f"- {path}{f': {counts[path]}' if counts[path] else ''}" for path in tests[:SHOWN]]
    if len(tests) > SHOWN:
        shown.append(words["more"].format(count=len(tests) - SHOWN))
    return "\n".join(lines + shown)


_REPORTS = {"structure": _structure, "notes": _notes, "readme": _readme_report, "tests": _tests}


def _readme(answers: Sequence[str]) -> str | None:
    names = [path for path, kind, _ in _entries(answers[0]) if kind == "file"]
    return next((name for name in names if name.lower().startswith("readme")), None)


def _error(result: str) -> str | None:
    value = read_json(result)
    return str(value.get("error") or "it failed") if isinstance(value, dict) and value.get("success") is False else None


def _entries(result: str) -> list[tuple[str, str, int]]:
    return [(path, kind, int(size)) for path, kind, size in _ENTRY.findall(result.replace('\\"', '"'))]


def _matches(results: Sequence[str], wanted: re.Pattern[str]) -> list[tuple[str, int, str]]:
    """Return the matching lines without duplicates, sorted by file."""
    lines: dict[tuple[str, int], str] = {}
    for result in results:
        text = result if '"matches": [' in result else result.replace('\\"', '"')
        for path, line, escaped in _MATCH.findall(text):
            content = escaped.replace('\\"', '"')
            if wanted.search(content):
                lines[path, int(line)] = one_line(content, LINE_CHARACTERS)
    return [(path, line, text) for (path, line), text in sorted(lines.items())]


def _content(result: str) -> str:
    match read_json(result):
        case {"data": {"content": content}}:
            return str(content)
    return result.replace("\\n", "\n")


def _is_cut(result: str) -> bool:
    return '"is_cut": true' in result or '"cut":' in result


def _at_least(count: int, results: Sequence[str]) -> str:
    is_more = any(_is_cut(result) or len(_MATCH.findall(result)) >= MAX_MATCHES for result in results)
    return f"{count}+" if is_more else str(count)


def _kind(path: str) -> str:
    stem, dot, ending = _name(path).rpartition(".")
    return f".{ending.lower()}" if stem and dot and ending else _name(path)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _size(number: int) -> str:
    if number < KILOBYTE:
        return f"{number} B"
    return f"{number / KILOBYTE:.1f} kB" if number < KILOBYTE**2 else f"{number / KILOBYTE**2:.1f} MB"

"""Results of tasks in demo plans: an outline, a draft, notes, a checklist or code, written to a file."""

# ruff: noqa: RUF001 - Russian and Chinese have letters and signs that look like others

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from artel.brain.demo.plans import kind_of
from artel.brain.demo.user_words import Language, language_of, read_json

Form = Literal["notes", "checklist", "outline", "draft", "code"]

WRITE = "write_file"
SUBJECT_CHARACTERS = 120
NAME_WORDS = 5

_FORMS: dict[str, Form] = {"research": "notes", "analysis": "checklist", "code": "code", "writing": "draft"}
_OUTLINE = re.compile(r"(?i)\boutline|\bagenda\b|\btable of contents|\bоглавлени|\bплан\b|提纲|大纲")
_WORD = re.compile(r"[a-z0-9]{2,20}")
_NOT_IN_NAMES = frozenset(("an", "the", "of", "on", "in", "for", "to", "and", "about", "write", "draft", "outline"))
_CODE = '''"""{subject}."""


def {name}(value: str) -> str:
    """Return the value without the spaces around it."""
    return value.strip()


def test_{name}() -> None:
    assert {name}(" ok ") == "ok"
'''
_INTRODUCTIONS: dict[Language, dict[Form, str]] = {
    "en": {
        "notes": "Notes for “{subject}”: what to find out, and where.",
        "checklist": "A checklist for “{subject}”.",
        "outline": "An outline for “{subject}”.",
        "draft": "A first draft for “{subject}”.",
        "code": "A first function for “{subject}”, with its test.",
    },
    "ru": {
        "notes": "Заметки: «{subject}» — что узнать и где.",
        "checklist": "Список проверок: «{subject}».",
        "outline": "План текста: «{subject}».",
        "draft": "Черновик: «{subject}».",
        "code": "Первая функция с тестом: «{subject}».",
    },
    "zh": {
        "notes": "“{subject}”的笔记：要弄清什么，去哪里找。",
        "checklist": "“{subject}”的检查清单。",
        "outline": "“{subject}”的提纲。",
        "draft": "“{subject}”的初稿。",
        "code": "“{subject}”的第一个函数和测试。",
    },
}
_CONTENTS: dict[Language, dict[Form, str]] = {
    "en": {
        "notes": "# Notes: {subject}\n\n1. What is it, and who needs it?\n2. Which ways are there, and what does "
        "each cost?\n3. What is known to go wrong?\n4. Who has decided this before, and why?\n\nWhere to "
        "look: the project's own files, its documentation, the people who use it.\n",
        "checklist": "# Checklist: {subject}\n\n- [ ] It does what was requested, and nothing else\n- [ ] The edge "
        "cases are tested: none, one, very many\n- [ ] Errors say what happened and what to do\n- [ ] New "
        "readers can follow it\n\nTo look at first: what is used most, and what was changed last.\n",
        "outline": "# Outline: {subject}\n\n1. The point, in one sentence\n2. For whom, and what they know already\n"
        "3. Three things to take away\n4. An example\n5. What to do next\n",
        "draft": "# {subject}\n\nIn short: one paragraph after which a reader in a hurry can stop.\n\n## The "
        "question\n\nThe problem, in the words of the people who have it.\n\n## The answer\n\nThe way, "
        "step by step, with an example.\n\n## What is open\n\nWhat is not known yet, and who may know it.\n",
        "code": _CODE,
    },
    "ru": {
        "notes": "# Заметки: {subject}\n\n1. Что это и кому это нужно?\n2. Какие есть пути и сколько стоит каждый?\n"
        "3. Что обычно идёт не так?\n4. Кто это уже решал и почему так?\n\nГде смотреть: файлы проекта, "
        "документация, люди, которые этим пользуются.\n",
        "checklist": "# Проверки: {subject}\n\n- [ ] Делает то, о чём просили, и ничего лишнего\n- [ ] Края проверены: "
        "ничего, один, очень много\n- [ ] Ошибки видны, и ясно, что делать\n- [ ] Новый человек разберётся"
        "\n",
        "outline": "# План: {subject}\n\n1. Главное одной фразой\n2. Для кого и что они уже знают\n3. Три мысли, "
        "которые останутся\n4. Пример\n5. Что делать дальше\n",
        "draft": "# {subject}\n\nКоротко: один абзац, после которого можно не читать.\n\n## Вопрос\n\nЗадача "
        "словами того, у кого она есть.\n\n## Ответ\n\nПуть по шагам, с примером.\n\n## Что не решено\n\n"
        "Чего мы ещё не знаем.\n",
        "code": _CODE,
    },
    "zh": {
        "notes": "# 笔记：{subject}\n\n1. 这是什么，谁需要它？\n2. 有哪些做法，各要付出什么？\n3. 常见的问题是什么？"
        "\n4. 以前谁做过决定，为什么？\n\n去哪里找：项目文件、文档和使用它的人。\n",
        "checklist": "# 检查清单：{subject}\n\n- [ ] 做到了要求的，没有多余的\n- [ ] 试过边界：没有、一个、很多\n- [ ] "
        "出错时会说明，并告诉怎么办\n- [ ] 新人能看懂\n",
        "outline": "# 提纲：{subject}\n\n1. 一句话说明重点\n2. 写给谁，他们已经知道什么\n3. 三个要点\n4. 一个例子\n5. "
        "下一步\n",
        "draft": "# {subject}\n\n简而言之：读完这一段就可以停下。\n\n## 问题\n\n用当事人的话说明。\n\n## 回答\n\n"
        "一步一步，并举例。\n\n## 未决\n\n还不知道的事情。\n",
        "code": _CODE,
    },
}
_SAVED: dict[Language, str] = {
    "en": "It is in the task workspace as `{path}`. The shape is by rules; the content takes a real model.",
    "ru": "Лежит в рабочей папке задачи: `{path}`. Форма — по правилам; содержание напишет настоящая модель.",
    "zh": "已写入任务工作区：`{path}`。形式来自规则，内容要由真正的模型来写。",
}


@dataclass(frozen=True, slots=True)
class TaskScript:
    """A script that writes one file for a task and shows it."""

    task: str
    tools: frozenset[str]

    @property
    def _form(self) -> Form:
        kind = kind_of(self.task)
        return "outline" if kind in ("writing", "analysis") and _OUTLINE.search(self.task) else _FORMS[kind]

    @property
    def _path(self) -> str:
        all_words = _WORD.findall(self.task.lower())
        words = [word for word in all_words if word not in _NOT_IN_NAMES] or all_words
        return f"{'-'.join([self._form, *words[:NAME_WORDS]])}.{'py' if self._form == 'code' else 'md'}"

    def next_call(self, results: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
        """Return the call that writes the file, unless it was made already."""
        if results or WRITE not in self.tools:
            return None
        return WRITE, {"path": self._path, "content": self._fill(_CONTENTS)}

    def text(self, results: Sequence[str]) -> str:
        """Return the result of the task."""
        content = self._fill(_CONTENTS)
        parts = [
            self._fill(_INTRODUCTIONS),
            f"```python\n{content}```" if self._form == "code" else content.rstrip(),
        ]
        values = map(read_json, results)
        if any(isinstance(value, dict) and value.get("success") is True for value in values):
            parts.append(_SAVED[language_of(self.task)].format(path=self._path))
        return "\n\n".join(parts)

    def _fill(self, texts: dict[Language, dict[Form, str]]) -> str:
        subject = " ".join(self.task.replace('"', "'").replace("\\", "/").split())[:SUBJECT_CHARACTERS].rstrip(".")
        name = "_".join(["do", *_WORD.findall(self.task.lower())[:2]])
        return texts[language_of(self.task)][self._form].format(subject=subject, name=name)

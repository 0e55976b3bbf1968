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
# Where the prompt of a capability names its topic, and what it begins with before the task itself.
_TOPIC = re.compile(r"(?im)^topic:[ \t]*+(\S.*)")
_LABEL = re.compile(r"\A[A-Z][\w ',()-]{2,60}:\s++(?=\S)")
_ORDER = re.compile(
    r"(?i)\A(?:(?:write|draft|prepare|create|make)\s++(?:(?:an?|the)\s++)?(?:[\w-]++\s++){0,3}?(?:about|on|of)"
    r"|research|find out|look up|investigate|review|check|analy[sz]e|summari[sz]e)\s++(?=\S)"
)
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
        "notes": "Notes by the demo brain, which has rules and no model: what to find out about “{subject}”. "
        "The answers are missing.",
        "checklist": "A checklist by the demo brain, which has rules and no judgement, for “{subject}”. "
        "Its verdict and its score mean nothing.",
        "outline": "An outline by the demo brain, which has rules and no model, for “{subject}”. "
        "A model would fill it in.",
        "draft": "A draft by the demo brain, which has rules and no model, for “{subject}”. "
        "Each part says what a model would write there.",
        "code": "A first function by the demo brain, which has rules and no model, for “{subject}”, with its test.",
    },
    "ru": {
        "notes": "Заметки демонстрационного мозга, у него есть правила, но нет модели: что узнать по теме «{subject}». "
        "Ответов здесь нет.",
        "checklist": "Список проверок от демонстрационного мозга, который не умеет судить: «{subject}». "
        "Его вердикт и оценка ничего не значат.",
        "outline": "План текста от демонстрационного мозга, без модели: «{subject}». Наполнит его настоящая модель.",
        "draft": "Черновик демонстрационного мозга, без модели: «{subject}». "
        "Каждая часть говорит, что написала бы модель.",
        "code": "Первая функция с тестом от демонстрационного мозга, без модели: «{subject}».",
    },
    "zh": {
        "notes": "演示大脑的笔记，只有规则，没有模型：关于“{subject}”要弄清什么。这里没有答案。",
        "checklist": "演示大脑为“{subject}”列的检查清单，它不会判断，结论和分数没有意义。",
        "outline": "演示大脑为“{subject}”列的提纲，没有模型，内容要由模型来写。",
        "draft": "演示大脑为“{subject}”写的初稿，没有模型。每一部分说明模型会在那里写什么。",
        "code": "演示大脑为“{subject}”写的第一个函数和测试，没有模型。",
    },
}
_CONTENTS: dict[Language, dict[Form, str]] = {
    "en": {
        "notes": "# Notes: {subject}\n\n1. What is it, in one sentence?\n2. How did it come about, and who was part of "
        "it?\n3. Which sources say so, and do they agree?\n4. What is disputed, and what is not known?\n",
        "checklist": "# Checklist: {subject}\n\n- [ ] It does what was asked for, and nothing else\n- [ ] The most "
        "important thing comes first\n- [ ] What it claims can be checked: a source, an example or a test\n"
        "- [ ] A new reader can follow it\n",
        "outline": "# Outline: {subject}\n\n1. The point, in one sentence\n2. For whom, and what they know already\n"
        "3. Three things to take away\n4. An example\n5. What to do next\n",
        "draft": "# {subject}\n\nIn short: one paragraph after which a reader in a hurry can stop.\n\n## The "
        "question\n\nThe problem, in the words of the people who have it.\n\n## The answer\n\nThe way, "
        "step by step, with an example.\n\n## What is open\n\nWhat is not known yet, and who may know it.\n",
        "code": _CODE,
    },
    "ru": {
        "notes": "# Заметки: {subject}\n\n1. Что это, одной фразой?\n2. Как это возникло и кто в этом участвовал?\n"
        "3. Какие источники это подтверждают и согласны ли они?\n4. О чём спорят и что неизвестно?\n",
        "checklist": "# Проверки: {subject}\n\n- [ ] Делает то, о чём просили, и ничего лишнего\n- [ ] Главное стоит "
        "первым\n- [ ] Утверждения можно проверить: источник, пример или тест\n- [ ] Новый человек разберётся\n",
        "outline": "# План: {subject}\n\n1. Главное одной фразой\n2. Для кого и что они уже знают\n3. Три мысли, "
        "которые останутся\n4. Пример\n5. Что делать дальше\n",
        "draft": "# {subject}\n\nКоротко: один абзац, после которого можно не читать.\n\n## Вопрос\n\nЗадача "
        "словами того, у кого она есть.\n\n## Ответ\n\nПуть по шагам, с примером.\n\n## Что не решено\n\n"
        "Чего мы ещё не знаем.\n",
        "code": _CODE,
    },
    "zh": {
        "notes": "# 笔记：{subject}\n\n1. 一句话：这是什么？\n2. 它是怎么来的，谁参与了？\n3. 哪些来源可以证实，"
        "它们一致吗？\n4. 有哪些争议，还有什么不清楚？\n",
        "checklist": "# 检查清单：{subject}\n\n- [ ] 做到了要求的，没有多余的\n- [ ] 最重要的放在最前面\n- [ ] "
        "所说的可以核实：来源、例子或测试\n- [ ] 新人能看懂\n",
        "outline": "# 提纲：{subject}\n\n1. 一句话说明重点\n2. 写给谁，他们已经知道什么\n3. 三个要点\n4. 一个例子\n5. "
        "下一步\n",
        "draft": "# {subject}\n\n简而言之：读完这一段就可以停下。\n\n## 问题\n\n用当事人的话说明。\n\n## 回答\n\n"
        "一步一步，并举例。\n\n## 未决\n\n还不知道的事情。\n",
        "code": _CODE,
    },
}
_SAVED: dict[Language, str] = {
    "en": "It is in the task workspace as `{path}`.",
    "ru": "Лежит в рабочей папке задачи: `{path}`.",
    "zh": "已写入任务工作区：`{path}`。",
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
        all_words = _WORD.findall(_LABEL.sub("", self.task, count=1).lower())
        words = [word for word in all_words if word not in _NOT_IN_NAMES] or all_words
        return f"{'-'.join([self._form, *words[:NAME_WORDS]])}.{'py' if self._form == 'code' else 'md'}"

    def next_call(self, results: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
        """Return the call that writes the file, unless it was made already."""
        if results or WRITE not in self.tools:
            return None
        return WRITE, {"path": self._path, "content": self._fill(_CONTENTS)}

    @property
    def subject(self) -> str:
        """What the task is about, in a few words."""
        topic = _TOPIC.search(self.task)
        lines = [" ".join(line.split()) for line in self.task.splitlines() if line.strip()] or [""]
        has_heading = lines[0].endswith(":") and len(lines) > 1
        text = topic[1] if topic else lines[1 if has_heading else 0]
        text = _ORDER.sub("", _LABEL.sub("", text, count=1), count=1)
        text = text.replace('"', "'").replace("\\", "/")[:SUBJECT_CHARACTERS].rstrip(".: ")
        return text[:1].upper() + text[1:]

    def text(self, results: Sequence[str], found: str = "") -> str:
        """Return the result of the task, with what a search found."""
        content = self._fill(_CONTENTS)
        parts = [
            self._fill(_INTRODUCTIONS),
            *([found] if found else []),
            f"```python\n{content}```" if self._form == "code" else content.rstrip(),
        ]
        values = map(read_json, results)
        if any(isinstance(value, dict) and value.get("success") is True for value in values):
            parts.append(_SAVED[language_of(self.task)].format(path=self._path))
        return "\n\n".join(parts)

    def _fill(self, texts: dict[Language, dict[Form, str]]) -> str:
        name = "_".join(["do", *_WORD.findall(self.task.lower())[:2]])
        return texts[language_of(self.task)][self._form].format(subject=self.subject, name=name)

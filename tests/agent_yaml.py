"""Agent files as texts, for tests that load or break them."""

from typing import Any

import pytest
import yaml

from artel.nodes.agent_files import parse_agent_file
from artel.nodes.yaml_mistakes import AgentFileInvalid

# Section 8.1 of the specification, as it stands.
SPECIFIED = """\
# config/agents/{agent_name}.yaml

agent:
  # Идентификация
  name: "agent.writer.001"        # Уникальное имя (для MindBus routing)
  type: "writer"                  # Тип агента
  version: "1.0.0"                # Версия

  # Display Identity (для Monitor)
  display:
    name: "Пушкин"                # Человекочитаемое имя
    description: "Мастер художественного слова"
    avatar: "quill"               # Иконка

  # Brain (LLM)
  brain:
    provider: "openai"
    model: "gpt-4o"
    temperature: 0.7
    max_tokens: 4000
    system_prompt: |
      Ты — профессиональный копирайтер.
      Пишешь ясно, убедительно, структурированно.
    fallback:
      enabled: true
      model: "gpt-4o-mini"

  # Tools
  tools:
    enabled:
      - web_search
      - memory_read
      - memory_write
    security:
      file_read:
        allowed_paths: ["/workspace/**"]

  # Memory
  memory:
    short_term:
      enabled: true
      max_context_tokens: 8000
    long_term:
      enabled: false

  # Capabilities
  capabilities:
    - name: "write_article"
      version: "1.0"
    - name: "improve_text"
      version: "1.0"
    - name: "generate_outline"
      version: "1.0"

  # Agent Loop
  agent_loop:
    max_iterations: 5
    max_tool_calls: 10
    enable_self_critique: true

  # Limits
  limits:
    max_execution_time_seconds: 300   # 5 минут на задачу
    max_retries: 3

  # Registry
  registry:
    enabled: true
    heartbeat_interval_seconds: 10
"""
SMALLEST = """\
agent:
  name: agent.echo.001
  type: echo
  brain: {model: gpt-4o, system_prompt: Repeat.}
  capabilities: [{name: repeat}]
"""
# Every section with a value of its own, as a program would write it: one key or item in each line.
FULL: dict[str, Any] = {
    "name": "agent.full.001",
    "type": "full",
    "version": "2.0",
    "labels": {"region": "eu"},
    "display": {"name": "Full", "description": "All of it.", "avatar": "star"},
    "brain": {
        "provider": "azure",
        "model": "gpt-4o",
        "temperature": 0.1,
        "max_tokens": 100,
        "system_prompt": "Work.",
        "fallback": {"enabled": True, "model": "gpt-4o-mini", "provider": "openai"},
    },
    "tools": {
        "enabled": ["web_search", "file_read", "api_call", "shell"],
        "security": {
            "allowed_tools": ["web_search", "file_read", "api_call", "shell"],
            "web_search": {"requires_approval": True, "searxng_url": "https://search.example.org"},
            "file_read": {"allowed_paths": ["/workspace/**"], "denied_paths": ["**/.env"]},
            "api_call": {
                "enabled": True,
                "hosts": [
                    {
                        "host": "api.example.org",
                        "methods": ["GET", "POST"],
                        "secrets": {"key": {"header": "Authorization", "variable": "KEY", "prefix": "Bearer "}},
                    }
                ],
            },
            "shell": {"enabled": True, "timeout_seconds": 5, "memory_mb": 64, "output_bytes": 2048},
        },
    },
    "memory": {
        "short_term": {"enabled": True, "max_context_tokens": 9000},
        "long_term": {"enabled": True, "provider": "chroma", "collection": "mine", "embedding_model": "small"},
    },
    "capabilities": [
        {
            "name": "repeat",
            "version": "1.1",
            "description": "Repeat a word.",
            "input_schema": {"type": "object", "properties": {"word": {"type": "string"}}},
            "output_schema": {"type": "object"},
            "tools_required": ["web_search"],
            "prompt_template": "Repeat {word}.",
            "parameters": {"languages": ["en"]},
            "examples": [{"word": "yes"}],
        },
        {"name": "write_article", "version": "1.0"},
    ],
    "agent_loop": {
        "max_iterations": 1,
        "max_tool_calls": 2,
        "enable_understanding": False,
        "enable_planning": True,
        "enable_self_critique": False,
    },
    "limits": {
        "max_execution_time_seconds": 60,
        "max_retries": 1,
        "max_concurrent_tasks": 2,
        "max_memory_mb": 256,
        "max_cpu_percent": 50,
    },
    "registry": {"enabled": False, "heartbeat_interval_seconds": 5},
    "progress_heartbeat": {"enabled": False, "interval_seconds": 10},
    "singleton": {"enabled": False, "queue_prefix": "one"},
}


def as_yaml(agent: dict[str, Any]) -> str:
    return yaml.safe_dump({"agent": agent}, sort_keys=False, allow_unicode=True)


def mistakes_of(text: str) -> list[str]:
    """Return the mistakes of a file as `line: key: text`."""
    with pytest.raises(AgentFileInvalid) as caught:
        parse_agent_file(text, "x.yaml")
    assert all(str(mistake).startswith("x.yaml") for mistake in caught.value.mistakes)
    return [str(mistake).removeprefix("x.yaml").removeprefix(":") for mistake in caught.value.mistakes]


def mistakes_after(old: str, new: str) -> list[str]:
    """Return the mistakes of the specified file with one text replaced."""
    assert SPECIFIED.count(old) == 1
    return mistakes_of(SPECIFIED.replace(old, new))


def line_of(text: str, sign: str) -> int:
    [number] = [number for number, line in enumerate(text.splitlines(), 1) if sign in line]
    return number

import type { markdown as english } from "../en/markdown";
import type { Translated } from "../message";

export const markdown: Translated<typeof english> = {
  text: "текст",
  table: "Таблица",
  taskDone: "сделано",
  taskOpen: "не сделано",
  wrap: "Переносить длинные строки",
  copyCode: "Скопировать код",
  copied: "Скопировано",
  unfold: { one: "Показать {count} строку", few: "Показать все {count} строки", many: "Показать все {count} строк", other: "Показать все {count} строки" },
  fold: "Свернуть",
};

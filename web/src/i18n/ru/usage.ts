import type { usage as english } from "../en/usage";
import type { Translated } from "../message";

export const usage: Translated<typeof english> = {
  cost: "Стоимость",
  calls: "Вызовы",
  input: "Токенов на входе",
  output: "Токенов на выходе",
  unpriced: { one: "Цена {count} вызова неизвестна, он не учтён в стоимости.", few: "Цена {count} вызовов неизвестна, они не учтены в стоимости.", many: "Цена {count} вызовов неизвестна, они не учтены в стоимости.", other: "Цена {count} вызова неизвестна, они не учтены в стоимости." },
  byDay: "По дням",
  byProject: "По проектам",
  byAgent: "По агентам",
  byModel: "По моделям",
  byUser: "По пользователям",
  day: "День (UTC)",
  agent: "Агент",
  planning: "Планирование",
  deletedProject: "Удалённый проект",
  empty: "За это время ничего не израсходовано",
  emptyHint: "Токены и стоимость появятся здесь после первого ответа модели.",
};

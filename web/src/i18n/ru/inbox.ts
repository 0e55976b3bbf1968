import type { inbox as english } from "../en/inbox";
import type { Translated } from "../message";

export const inbox: Translated<typeof english> = {
  title: "Входящие",
  empty: "Вас ничего не ждёт",
  emptyText: "Здесь появляются вопросы агентов и планы из всех проектов.",
  where: "{project} · {conversation}",
  open: "Открыть разговор",
  waiting: "Ждёт вас",
  missed: "Никто не ответил вовремя",
  show: "Посмотреть",
  hide: "Скрыть",
  more: { one: "Ждёт ещё {count}.", few: "Ждут ещё {count}.", many: "Ждут ещё {count}.", other: "Ждут ещё {count}." },
};

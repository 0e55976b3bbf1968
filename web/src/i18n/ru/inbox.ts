import type { inbox as english } from "../en/inbox";
import type { Translated } from "../message";

export const inbox: Translated<typeof english> = {
  title: "Входящие",
  empty: "Вас ничего не ждёт",
  emptyText: "Здесь появляются вопросы агентов и планы из всех проектов.",
  where: "{project} · {conversation}",
  open: "Открыть разговор",
  waiting: "Ждёт вас",
  missed: "Пока вас не было",
  markSeen: "Отметить всё просмотренным",
  expired: "Никто не ответил вовремя, поэтому это не сделано.",
  failed: "{agent}: работа не закончена",
  failedTeam: "Команда не закончила работу",
  show: "Посмотреть",
  hide: "Скрыть",
  more: { one: "Ждёт ещё {count}.", few: "Ждут ещё {count}.", many: "Ждут ещё {count}.", other: "Ждут ещё {count}." },
};

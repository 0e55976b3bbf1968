import type { errors as english } from "../en/errors";
import type { Translated } from "../message";

export const errors: Translated<typeof english> = {
  unreachable: "Сервер недоступен. Проверьте, запущен ли он, и повторите.",
  timeout: "Сервер не ответил за 30 секунд. Повторите.",
  status: "Сервер ответил ошибкой {status}. Повторите позже.",
  retryAfter: "Повторите через {seconds} с.",
  crashed: "На этой странице произошла ошибка",
  crashedDetail: "Обновите страницу. Написанное сохранено.",
  reload: "Обновить",
  notFound: "По этому адресу ничего нет",
  toChats: "К разговорам",
  projectGone: "Такого проекта нет, или он не ваш.",
  allProjects: "Все проекты",
  conversationGone: "Этот разговор удалён или принадлежит другому.",
  loadFailed: "Не удалось загрузить",
};

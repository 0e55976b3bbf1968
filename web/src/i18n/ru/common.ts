import type { common as english } from "../en/common";
import type { Translated } from "../message";

export const common: Translated<typeof english> = {
  appName: "Artel",
  loading: "Загрузка…",
  cancel: "Отмена",
  close: "Закрыть",
  save: "Сохранить",
  delete: "Удалить",
  undo: "Вернуть",
  copy: "Копировать",
  copyCommand: "Скопировать команду",
  copied: "Скопировано",
  copyFailed: "Браузер не дал скопировать. Выделите текст и скопируйте.",
  retry: "Повторить",
  more: "Ещё",
  showMore: "Показать ещё",
  search: "Поиск",
  today: "Сегодня",
  yesterday: "Вчера",
  timeLeft: "Осталось {time}",
  expired: "Время вышло",
  auto: "Авто",
  dismiss: "Скрыть",
  unknownPrice: "цена неизвестна",
};

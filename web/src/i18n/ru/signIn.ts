import type { signIn as english } from "../en/signIn";
import type { Translated } from "../message";

export const signIn: Translated<typeof english> = {
  title: "Вход",
  create: "Создать аккаунт",
  tagline: "Команда ИИ-агентов для каждого проекта.",
  linkHint: "Artel запущен на этой машине? Выполните `artel link`: команда напечатает ссылку для входа.",
  email: "Адрес электронной почты",
  emailHint: "Адрес вида ada@example.org",
  password: "Пароль",
  passwordHint: "Не меньше 8 знаков. Несколько слов подряд — хороший пароль.",
  submit: "Войти",
  submitNew: "Создать аккаунт",
  newHere: "Впервые здесь?",
  beenHere: "Уже бывали здесь?",
  instead: "Войти",
  left: "Вы вышли.",
  signedOut: "Вы вышли: {reason}",
  changeTitle: "Сменить аккаунт?",
  change: "Сменить аккаунт",
  stay: "Остаться",
};

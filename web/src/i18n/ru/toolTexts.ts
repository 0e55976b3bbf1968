import type { toolTexts as english } from "../en/toolTexts";
import type { Translated } from "../message";

export const toolTexts: Translated<typeof english> = {
  about_tool_read_file: "Текстовый файл целиком или несколько его строк.",
  about_tool_list_directory: "Имена, размеры и время изменения файлов и папок.",
  about_tool_search_files: "Строки с текстом или шаблоном в файлах вашей папки.",
  about_tool_stat: "Есть ли он, его размер и время изменения.",
  about_tool_write_file: "Текстовый файл целиком. Вас могут сначала спросить.",
  about_tool_edit_file: "Заменяет один фрагмент. Вас могут сначала спросить.",
  about_tool_delete_file: "Вас всегда сначала спрашивают.",
  about_tool_run_command: "Одну из тех, что вы назвали при подключении папки. Вас могут сначала спросить.",
  about_memory_read: "Что агент сохранил из прежней работы.",
  about_project_memory_read: "Что сохранили все агенты проекта; ничего не меняется.",
  about_memory_write: "Заметка, которую агент найдёт позже.",
  about_write_file: "Черновой файл на сервере, не в вашей папке.",
  about_read_file: "Черновой файл на сервере, не в вашей папке.",
  about_list_files: "Черновые файлы агента на сервере.",
  about_get_workspace_info: "Сколько в ней файлов и сколько осталось места.",
  about_spawn_agent: "Другой агент делает часть работы и сообщает результат.",
  about_web_search: "Находит страницы; отправляется только запрос.",
  about_web_fetch: "Текст одной общедоступной страницы.",
  about_api_call: "Запрос к адресу, который разрешает узел.",
  about_file_read: "Файлы, которые разрешил оператор узла, и папка узла для вашего проекта.",
  about_file_write: "Файлы, которые разрешил оператор узла, и папка узла для вашего проекта.",
  about_code_execute: "Короткая программа в изолированной среде узла.",
  about_shell: "Команда в изолированной среде узла.",
};

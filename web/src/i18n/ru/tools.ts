import type { tools as english } from "../en/tools";
import type { Translated } from "../message";

export const tools: Translated<typeof english> = {
  name_tool_read_file: "Прочитать файл вашей папки",
  name_tool_list_directory: "Показать содержимое вашей папки",
  name_tool_search_files: "Искать в ваших файлах",
  name_tool_stat: "Посмотреть сведения о файле вашей папки",
  name_tool_write_file: "Записать файл вашей папки",
  name_tool_edit_file: "Изменить файл вашей папки",
  name_tool_delete_file: "Удалить файл вашей папки",
  name_tool_run_command: "Выполнить команду",
  name_memory_read: "Искать в своей памяти",
  name_project_memory_read: "Искать в памяти всех агентов",
  name_memory_write: "Сохранить в память",
  name_write_file: "Записать файл своей рабочей папки",
  name_read_file: "Прочитать файл своей рабочей папки",
  name_list_files: "Показать свою рабочую папку",
  name_get_workspace_info: "Посмотреть сведения о своей рабочей папке",
  name_spawn_agent: "Запустить помощника",
  name_web_search: "Искать в интернете",
  name_web_fetch: "Прочитать веб-страницу",
  name_api_call: "Вызвать веб-сервис",
  name_file_read: "Прочитать файл узла",
  name_file_write: "Записать файл узла",
  name_code_execute: "Запустить программу",
  name_shell: "Выполнить команду оболочки",
};

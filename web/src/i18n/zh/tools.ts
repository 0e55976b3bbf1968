import type { tools as english } from "../en/tools";
import type { Translated } from "../message";

export const tools: Translated<typeof english> = {
  name_tool_read_file: "读取您文件夹中的文件",
  name_tool_list_directory: "列出您的文件夹",
  name_tool_search_files: "搜索您的文件",
  name_tool_stat: "查看您文件夹中的文件信息",
  name_tool_write_file: "写入您文件夹中的文件",
  name_tool_edit_file: "修改您文件夹中的文件",
  name_tool_delete_file: "删除您文件夹中的文件",
  name_tool_run_command: "运行命令",
  name_memory_read: "搜索自己的记忆",
  name_project_memory_read: "搜索所有智能体的记忆",
  name_memory_write: "存入记忆",
  name_write_file: "写入自己工作区的文件",
  name_read_file: "读取自己工作区的文件",
  name_list_files: "列出自己的工作区",
  name_get_workspace_info: "查看自己的工作区",
  name_spawn_agent: "启动助手",
  name_web_search: "搜索网页",
  name_web_fetch: "阅读网页",
  name_api_call: "调用网络服务",
  name_file_read: "读取节点的文件",
  name_file_write: "写入节点的文件",
  name_code_execute: "运行程序",
  name_shell: "运行 shell 命令",
};

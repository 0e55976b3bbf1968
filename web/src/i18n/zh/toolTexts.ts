import type { toolTexts as english } from "../en/toolTexts";
import type { Translated } from "../message";

export const toolTexts: Translated<typeof english> = {
  about_tool_read_file: "文本文件的全部或部分行。",
  about_tool_list_directory: "文件和文件夹的名称、大小和时间。",
  about_tool_search_files: "您文件夹的文件中含有某段文字或模式的行。",
  about_tool_stat: "是否存在、大小和时间。",
  about_tool_write_file: "整个文本文件。可能会先询问您。",
  about_tool_edit_file: "替换一处内容。可能会先询问您。",
  about_tool_delete_file: "总是先询问您。",
  about_tool_run_command: "您连接文件夹时指定的命令。可能会先询问您。",
  about_memory_read: "智能体从以前的工作中保存的内容。",
  about_project_memory_read: "项目中所有智能体保存的内容；不做任何更改。",
  about_memory_write: "智能体以后能再找到的笔记。",
  about_write_file: "服务器上的草稿文件，不在您的文件夹中。",
  about_read_file: "服务器上的草稿文件，不在您的文件夹中。",
  about_list_files: "智能体在服务器上的草稿文件。",
  about_get_workspace_info: "有多少文件，还剩多少空间。",
  about_spawn_agent: "另一个智能体完成部分工作并汇报。",
  about_web_search: "查找网页；只发送查询内容。",
  about_web_fetch: "一个公开网页的文字。",
  about_api_call: "向节点允许的地址发送请求。",
  about_file_read: "节点运营者允许的文件，以及节点为您的项目准备的文件夹。",
  about_file_write: "节点运营者允许的文件，以及节点为您的项目准备的文件夹。",
  about_code_execute: "在节点的沙盒中运行的小程序。",
  about_shell: "在节点的沙盒中运行的命令。",
};

import type { errors as english } from "../en/errors";
import type { Translated } from "../message";

export const errors: Translated<typeof english> = {
  unreachable: "无法连接服务器。请确认它正在运行，然后重试。",
  timeout: "服务器在 30 秒内没有响应。请重试。",
  status: "服务器返回错误 {status}。请稍后重试。",
  retryAfter: "请在 {seconds} 秒后重试。",
  crashed: "此页面出错了",
  crashedDetail: "请重新加载页面。你写的内容已保留。",
  reload: "重新加载",
  notFound: "此地址没有内容",
  toChats: "返回对话",
  projectGone: "此项目不存在，或不属于你。",
  allProjects: "所有项目",
  conversationGone: "此对话已被删除，或属于其他人。",
  loadFailed: "无法加载",
};

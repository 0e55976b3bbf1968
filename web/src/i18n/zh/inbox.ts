import type { inbox as english } from "../en/inbox";
import type { Translated } from "../message";

export const inbox: Translated<typeof english> = {
  title: "收件箱",
  empty: "没有等你处理的事",
  emptyText: "所有项目里智能体的问题和计划都会出现在这里。",
  where: "{project} · {conversation}",
  open: "打开对话",
  waiting: "等你决定",
  missed: "没有人及时回答",
  show: "查看",
  hide: "收起",
  more: { other: "还有 {count} 个在等。" },
};

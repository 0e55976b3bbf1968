import type { inbox as english } from "../en/inbox";
import type { Translated } from "../message";

export const inbox: Translated<typeof english> = {
  title: "收件箱",
  empty: "没有等你处理的事",
  emptyText: "所有项目里智能体的问题和计划都会出现在这里。",
  where: "{project} · {conversation}",
  open: "打开对话",
  waiting: "等你决定",
  missed: "您不在的时候",
  markSeen: "全部标为已看",
  expired: "没有人及时回答，所以没有执行。",
  failed: "{agent} 没有完成",
  failedTeam: "团队没有完成",
  show: "查看",
  hide: "收起",
  more: { other: "还有 {count} 个在等。" },
};

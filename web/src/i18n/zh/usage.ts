import type { usage as english } from "../en/usage";
import type { Translated } from "../message";

export const usage: Translated<typeof english> = {
  cost: "费用",
  calls: "调用次数",
  input: "输入 token",
  output: "输出 token",
  unpriced: { other: "{count} 次调用价格未知，未计入费用。" },
  byDay: "按天",
  byProject: "按项目",
  byAgent: "按代理",
  byModel: "按模型",
  byUser: "按用户",
  day: "日期（UTC）",
  agent: "代理",
  planning: "规划",
  deletedProject: "已删除的项目",
  empty: "这段时间没有用量",
  emptyHint: "模型首次回答后，这里会显示 token 和费用。",
};

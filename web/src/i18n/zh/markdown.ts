import type { markdown as english } from "../en/markdown";
import type { Translated } from "../message";

export const markdown: Translated<typeof english> = {
  text: "文本",
  table: "表格",
  taskDone: "已完成",
  taskOpen: "未完成",
  wrap: "自动换行",
  copyCode: "复制代码",
  copied: "已复制",
  unfold: { other: "显示全部 {count} 行" },
  fold: "收起",
};

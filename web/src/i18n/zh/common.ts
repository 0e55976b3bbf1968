import type { common as english } from "../en/common";
import type { Translated } from "../message";

export const common: Translated<typeof english> = {
  appName: "Artel",
  loading: "正在加载…",
  cancel: "取消",
  close: "关闭",
  save: "保存",
  delete: "删除",
  undo: "撤销",
  copy: "复制",
  copyCommand: "复制命令",
  copied: "已复制",
  copyFailed: "浏览器不允许复制，请选中文本后手动复制。",
  retry: "重试",
  more: "更多",
  showMore: "显示更多",
  search: "搜索",
  today: "今天",
  yesterday: "昨天",
  timeLeft: "剩余 {time}",
  expired: "已超时",
  auto: "自动",
  dismiss: "关闭提示",
  unknownPrice: "价格未知",
};

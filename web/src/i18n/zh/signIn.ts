import type { signIn as english } from "../en/signIn";
import type { Translated } from "../message";

export const signIn: Translated<typeof english> = {
  title: "登录",
  create: "创建账户",
  tagline: "为每个项目配备一支 AI 团队。",
  linkHint: "Artel 在这台机器上运行吗？运行 `artel link`，它会打印登录链接。",
  email: "电子邮箱",
  emailHint: "形如 ada@example.org 的地址",
  password: "密码",
  passwordHint: "至少 8 个字符。几个词连在一起就很好。",
  submit: "登录",
  submitNew: "创建账户",
  newHere: "第一次来？",
  beenHere: "已有账户？",
  instead: "直接登录",
  left: "你已退出登录。",
  signedOut: "你已退出登录：{reason}",
  changeTitle: "切换账户？",
  change: "切换账户",
  stay: "保持登录",
};

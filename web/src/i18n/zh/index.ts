// What every visit needs; texts of other pages are in pages.ts.

import { chat } from "./chat";
import { common } from "./common";
import { decisions } from "./decisions";
import { errors } from "./errors";
import { markdown } from "./markdown";
import { palette } from "./palette";
import { shell } from "./shell";
import { signIn } from "./signIn";
import { tools } from "./tools";

export default { chat, common, decisions, errors, markdown, palette, shell, signIn, tools };

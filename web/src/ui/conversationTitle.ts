import { t } from "@/i18n";
import { visible } from "@/state/visible";

const UNNAMED = "New session"; // the server's word, until the first message is taken up

/** Return the title of a conversation as it is shown. */
export function conversationTitle(title: string): string {
  return title === UNNAMED ? t("chat.newConversation") : visible(title);
}

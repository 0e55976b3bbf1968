import { expect, test } from "vitest";
import { isSendKey } from "./sendKey";

const press = (more: object) => ({ key: "Enter", shiftKey: false, ctrlKey: false, metaKey: false, nativeEvent: { isComposing: false }, ...more });

test.each([
  ["Enter", {}, [true, false]],
  ["Ctrl+Enter", { ctrlKey: true }, [true, true]],
  ["Cmd+Enter", { metaKey: true }, [true, true]],
  ["Shift+Enter", { shiftKey: true }, [false, false]],
  ["Enter of an input method", { nativeEvent: { isComposing: true } }, [false, false]],
  ["another key", { key: "a" }, [false, false]],
])("%s sends as the user has chosen", (_, more, sends) => expect([true, false].map((enterSends) => isSendKey(press(more), enterSends))).toEqual(sends));

import { Suspense, lazy, useEffect, useState } from "react";
import { withPageTexts } from "@/i18n";
import { openProject } from "@/state/project";
import { createCell } from "@/state/store";
import { isField, useCell, useHotkey } from "../hooks";
import { navigate, useRoute } from "../router";
import { paths } from "../routes";
import { GO, createSequence } from "./keys";

// Only who opens them loads them.
const PaletteDialog = lazy(() => withPageTexts(import("./PaletteDialog"))); // it names the parts of pages
const Shortcuts = lazy(() => import("./Shortcuts"));

const shown = createCell<"palette" | "shortcuts" | null>(null);

export function openPalette(): void {
  shown.set("palette");
}

/** The palette, the list of shortcuts, and the keys that work on every page; mounted once in the shell. */
export function Palette() {
  const open = useCell(shown);
  const project = useCell(openProject)?.id ?? null;
  const page = useRoute()?.page;
  const [next] = useState(createSequence);
  const close = () => shown.set(null);
  useHotkey("mod+k", (event) => {
    event.preventDefault();
    if (open === "palette") close();
    else if (!isModalOpen()) openPalette();
  });
  useHotkey("mod+j", (event) => {
    event.preventDefault();
    if (project !== null && !isModalOpen()) navigate(paths.chat(project));
  });
  useHotkey("?", () => {
    if (!isModalOpen()) shown.set("shortcuts");
  });
  useHotkey("/", (event) => {
    if (project === null || page === "chat" || isModalOpen()) return; // the composer takes it itself
    event.preventDefault();
    navigate(paths.chat(project));
  });
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isField(event.target) || isModalOpen()) return;
      const second = next(event.key.toLowerCase(), event.timeStamp);
      const target = second === null ? undefined : GO[second];
      if (!target || project === null) return;
      event.preventDefault();
      navigate(target.to(project));
    };
    document.addEventListener("keydown", listener);
    return () => document.removeEventListener("keydown", listener);
  }, [next, project]);
  return (
    <Suspense fallback={null}>
      {open === "palette" && <PaletteDialog onClose={close} showShortcuts={() => shown.set("shortcuts")} />}
      {open === "shortcuts" && <Shortcuts onClose={close} />}
    </Suspense>
  );
}

function isModalOpen(): boolean {
  return document.querySelector("dialog:modal") !== null;
}

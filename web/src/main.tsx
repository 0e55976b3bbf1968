import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { loadLanguage } from "./i18n";
import { proofOf, start, watchAccount } from "./state/account";
import { hrefOf, watchAddress } from "./ui/router";
import "./ui/styles/tokens.css";
import "./ui/styles/base.css";
import { watchTheme } from "./ui/theme";

// A link carries a code or a token in its hash: it stays neither in the address bar nor in the history.
const proof = proofOf(location.hash);
if (location.hash) history.replaceState(null, "", location.pathname + location.search);

watchTheme();
watchAddress();
// Somebody else's project is not the new account's: it begins at home.
watchAccount((isReplaced) => (isReplaced ? location.assign(hrefOf("/")) : location.reload()));
// A link opened in a tab where the page is already loaded changes only the hash.
window.addEventListener("hashchange", () => {
  if (proofOf(location.hash)) location.reload();
});

const root = document.getElementById("root");
if (!root) throw new Error("The page has no root element");
void Promise.all([loadLanguage(), start(proof)]).then(() => {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
});

// Who is signed in with the browser's cookie, and how signing in and out works.

import { call, onSignedOut } from "@/api/client";
import { Problem } from "@/api/problem";
import type { BrowserSignIn, SignedInAccount } from "@/api/types";
import { createCell } from "./store";
import { visible } from "./visible";

export type AccountState =
  | { phase: "unknown" }
  | { phase: "failed"; problem: Problem }
  | { phase: "signed_out"; notice: SignedOutNotice | null; registrationOpen: boolean }
  /** A link signs somebody else in: the user is asked first. */
  | { phase: "asking"; question: string; proof: BrowserSignIn; before: SignedInAccount | null }
  | { phase: "signed_in"; account: SignedInAccount };

/** Why nobody is signed in: the user left, the server ended the login, or a link was refused. */
export type SignedOutNotice = { kind: "left" } | { kind: "ended" | "link"; reason: string };

/** Return how people know an account: its address, or its number. The address comes from whoever registered. */
export function accountName({ email, user_id }: Pick<SignedInAccount, "email" | "user_id">): string {
  return visible(email ?? String(user_id));
}

export const accountState = createCell<AccountState>({ phase: "unknown" });

// Tabs share the cookie: when somebody else is signed in with it, no tab may go on showing the one before.
const tabs = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("artel");

function currentId(): number | null {
  const state = accountState.get();
  return state.phase === "signed_in" ? state.account.user_id : null;
}

/** Watch other tabs and refused requests; call once. `reload` gets whether somebody else is signed in now. */
export function watchAccount(reload: (isReplaced: boolean) => void): void {
  tabs?.addEventListener("message", ({ data }) => data !== currentId() && reload(data !== null && currentId() !== null));
  onSignedOut((problem) => {
    if (accountState.get().phase === "signed_in") void showSignIn({ kind: "ended", reason: problem.message });
  });
}

/** Return the proof that a link carries in its hash: a one-time code, or a token. */
export function proofOf(hash: string): BrowserSignIn | null {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const code = found.get("code");
  if (code !== null) return { code };
  const token = found.get("token");
  return token === null ? null : { token };
}

/** Find out who is signed in; a link's proof signs in first. */
export async function start(proof: BrowserSignIn | null): Promise<void> {
  try {
    let notice: SignedOutNotice | null = null;
    const state = await call("GET /auth/browser");
    if (proof) {
      try {
        signedIn(await call("POST /auth/browser", { body: proof }), state.account ?? null);
        return;
      } catch (failure) {
        if (!(failure instanceof Problem) || ![401, 403, 409, 422].includes(failure.status)) throw failure;
        if (failure.code === "other_account") {
          accountState.set({ phase: "asking", question: failure.message, proof, before: state.account ?? null });
          return;
        }
        notice = { kind: "link", reason: failure.message };
      }
    }
    if (state.account) accountState.set({ phase: "signed_in", account: state.account });
    else accountState.set({ phase: "signed_out", notice, registrationOpen: state.registration_open });
  } catch (failure) {
    if (!(failure instanceof Problem)) throw failure;
    accountState.set({ phase: "failed", problem: failure });
  }
}

/** Answer the question of `asking`. */
export async function replaceAccount(isAgreed: boolean): Promise<void> {
  const state = accountState.get();
  if (state.phase !== "asking") return;
  if (!isAgreed) {
    if (state.before) accountState.set({ phase: "signed_in", account: state.before });
    else await start(null);
    return;
  }
  signedIn(await call("POST /auth/browser", { body: { ...state.proof, replace: true } }), state.before);
}

export async function signIn(email: string, password: string): Promise<void> {
  signedIn(await call("POST /auth/browser", { body: { email, password } }), null);
}

export async function register(email: string, password: string): Promise<void> {
  const { access_token } = await call("POST /auth/register", { body: { email, password } });
  // The page needs no token: it ends before the cookie, because a login ends with the one that it was made from.
  await call("POST /auth/logout", {}, { headers: { Authorization: `Bearer ${access_token}` } });
  await signIn(email, password);
}

/** Read the account again: a model was added, or the password was set. */
export async function refreshAccount(): Promise<void> {
  const account = await call("GET /auth/me");
  accountState.set((state) => (state.phase === "signed_in" && state.account.user_id === account.user_id ? { phase: "signed_in", account } : state));
}

export async function signOut(): Promise<void> {
  await call("POST /auth/logout");
  tabs?.postMessage(null);
  await showSignIn({ kind: "left" });
}

async function showSignIn(notice: SignedOutNotice): Promise<void> {
  accountState.set({ phase: "signed_out", notice, registrationOpen: false });
  await start(null);
  accountState.set((state) => (state.phase === "signed_out" ? { ...state, notice } : state));
}

function signedIn(account: SignedInAccount, before: SignedInAccount | null): void {
  accountState.set({ phase: "signed_in", account });
  if (before?.user_id !== account.user_id) tabs?.postMessage(account.user_id);
}

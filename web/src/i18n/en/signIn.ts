import type { Area } from "../message";

export const signIn = {
  title: "Sign in",
  create: "Create an account",
  tagline: "A team of AI agents for every project.",
  linkHint: "Is Artel running on this machine? Run `artel link`: it prints a link that signs you in.",
  email: "E-mail address",
  emailHint: "An address like ada@example.org",
  password: "Password",
  passwordHint: "At least 8 characters. A few words in a row are good.",
  submit: "Sign in",
  submitNew: "Create account",
  newHere: "New here?",
  beenHere: "Been here before?",
  instead: "Sign in instead",
  left: "You are signed out.",
  signedOut: "You were signed out: {reason}",
  changeTitle: "Change the account?",
  change: "Change account",
  stay: "Stay signed in",
} as const satisfies Area;

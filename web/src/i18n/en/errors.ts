import type { Area } from "../message";

export const errors = {
  unreachable: "The server can't be reached. Check whether it is running, then try again.",
  timeout: "The server did not answer within 30 seconds. Try again.",
  status: "The server answered with error {status}. Try again later.",
  retryAfter: "Try again in {seconds} s.",
  crashed: "Something went wrong on this page",
  crashedDetail: "Reload the page. What you wrote is kept.",
  reload: "Reload",
  notFound: "There is nothing at this address",
  toChats: "Back to chats",
  projectGone: "This project doesn't exist, or isn't yours.",
  allProjects: "All projects",
  conversationGone: "This conversation was deleted, or belongs to somebody else.",
  loadFailed: "This could not be loaded",
} as const satisfies Area;

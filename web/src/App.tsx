// Decides what is on the screen: sign-in, or the shell with the page of the address.

import { type ComponentType, Suspense, lazy, useEffect } from "react";
import { withPageTexts } from "./i18n";
import { accountState, start } from "./state/account";
import { watchInbox } from "./state/inbox";
import { watchForNotifications } from "./state/notifications";
import { closeConversation } from "./state/openConversation";
import { claimDrafts, setPreference } from "./state/preferences";
import { openProject, showProject } from "./state/project";
import { agentLabel } from "./ui/agents";
import { Button, EmptyState, ErrorBoundary, LoadFailed, Skeleton } from "./ui/components";
import { useCell, useT } from "./ui/hooks";
import { Link, navigate, usePath, useRoute } from "./ui/router";
import { type PageName, type Route, paths } from "./ui/routes";
import { AppShell, PageFrame } from "./ui/shell";

export interface PageProps {
  route: Route;
}

// One chunk per page: pages don't wait for each other's code.
const PAGES: Record<PageName, ComponentType<PageProps>> = {
  home: lazy(() => import("./pages/chat/Home")),
  chat: lazy(() => import("./pages/chat")),
  inbox: lazy(() => withPageTexts(import("./pages/inbox"))),
  plans: lazy(() => withPageTexts(import("./pages/plans"))),
  files: lazy(() => withPageTexts(import("./pages/files"))),
  agents: lazy(() => withPageTexts(import("./pages/agents"))),
  memory: lazy(() => withPageTexts(import("./pages/memory"))),
  activity: lazy(() => withPageTexts(import("./pages/activity"))),
  projectSettings: lazy(() => withPageTexts(import("./pages/settings/ProjectSettings"))),
  settings: lazy(() => withPageTexts(import("./pages/settings"))),
  manage: lazy(() => withPageTexts(import("./pages/manage"))),
  welcome: lazy(() => withPageTexts(import("./pages/welcome"))),
};

const SignIn = lazy(() => import("./pages/signIn"));
const ConversationList = lazy(() => import("./pages/chat/ConversationList").then((module) => ({ default: module.ConversationList })));

export function App() {
  const account = useCell(accountState);
  const path = usePath();
  switch (account.phase) {
    case "unknown":
      return <Skeleton />;
    case "failed":
      return <LoadFailed problem={account.problem} retry={() => void start(null)} />;
    case "signed_out":
    case "asking":
      return (
        <Suspense fallback={<Skeleton />}>
          <SignIn state={account} />
        </Suspense>
      );
    case "signed_in":
      return (
        <ErrorBoundary resetKey={path}>
          <SignedIn key={account.account.user_id} userId={account.account.user_id} />
        </ErrorBoundary>
      );
  }
}

function SignedIn({ userId }: { userId: number }) {
  const route = useRoute();
  const project = useCell(openProject);
  const projectId = route?.projectId ?? null;
  useEffect(() => watchInbox(), []);
  useEffect(() => watchForNotifications(({ projectId: project, sessionId }) => navigate(paths.chat(project, sessionId)), agentLabel), []);
  useEffect(() => {
    if (projectId === null) return; // pages of no project keep the one before in the rail
    showProject(projectId);
    setPreference("lastProject", projectId);
  }, [projectId]);
  useEffect(() => {
    if (route?.page !== "chat") closeConversation();
  }, [route?.page]);
  useEffect(() => {
    claimDrafts(userId);
    return () => {
      closeConversation();
      showProject(null);
    };
  }, [userId]);
  const isReady = projectId === null || project?.id === projectId;
  const list = project && (
    <Suspense fallback={<Skeleton />}>
      <ConversationList key={project.id} project={project} />
    </Suspense>
  );
  return (
    <AppShell list={list} isListShown={route?.page === "chat"}>
      <Suspense fallback={<Skeleton />}>{route === null ? <NotFound /> : isReady ? <ProjectGate route={route} /> : <Skeleton />}</Suspense>
    </AppShell>
  );
}

/** Shows a page of a project once the project is there. */
function ProjectGate({ route }: PageProps) {
  const Page = PAGES[route.page];
  const project = useCell(openProject);
  if (route.projectId === null || project === null) return <Page route={route} />;
  return <OfProject project={project} route={route} page={Page} />;
}

function OfProject({ project, route, page: Page }: PageProps & { project: NonNullable<ReturnType<typeof openProject.get>>; page: ComponentType<PageProps> }) {
  const t = useT();
  const { phase, problem } = useCell(project.state);
  if (phase === "ready") return <Page route={route} />;
  if (phase === "loading" || problem === null) return <Skeleton />;
  if (problem.status !== 404) return <LoadFailed problem={problem} retry={() => void project.open()} />;
  return (
    <PageFrame title={t("shell.project")}>
      <EmptyState title={t("errors.projectGone")}>
        <Button
          kind="primary"
          onClick={() => {
            showProject(null);
            setPreference("lastProject", null);
            navigate(paths.home());
          }}
        >
          {t("errors.allProjects")}
        </Button>
      </EmptyState>
    </PageFrame>
  );
}

function NotFound() {
  const t = useT();
  return (
    <PageFrame title={t("errors.notFound")}>
      <EmptyState title={t("errors.notFound")}>
        <Link to={paths.home()}>{t("errors.toChats")}</Link>
      </EmptyState>
    </PageFrame>
  );
}

import { Command, Dialog, Prose } from "../components";
import { useT } from "../hooks";

/** How a node is started: it joins by itself, over the message broker. */
export function AddNode({ onClose }: { onClose: () => void }) {
  const t = useT();
  return (
    <Dialog title={t("manage.addNode")} onClose={onClose}>
      <p>{t("manage.addNodeText")}</p>
      <Command text="pip install 'artel-ai[server]'" />
      <Command text="ARTEL_BUS_URL=amqp://USER:PASSWORD@HOST:5672/ artel node run --kind writer" />
      <p className="muted small">
        <Prose text={t("manage.addNodeKey")} />
      </p>
      <p>{t("manage.addNodeInside")}</p>
      <Command text="artel up --nodes FOLDER" />
    </Dialog>
  );
}

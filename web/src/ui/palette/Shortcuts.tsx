import { Dialog } from "../components";
import { useT } from "../hooks";
import { KeyList } from "./KeyList";

/** All keys of the page, in a dialog. */
export default function Shortcuts({ onClose }: { onClose: () => void }) {
  const t = useT();
  return (
    <Dialog title={t("palette.shortcuts")} isWide onClose={onClose}>
      <KeyList />
    </Dialog>
  );
}

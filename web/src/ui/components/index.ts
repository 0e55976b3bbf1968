// The components that pages are made of: `import { Button } from "@/ui/components"`.

export { Avatar } from "./Avatar";
export { Button, type ButtonKind, IconButton } from "./Button";
export { classes } from "./classes";
export { Command } from "./Command";
export { Countdown } from "./Countdown";
export { Dialog, FormDialog } from "./Dialog";
export { EmptyState, LoadFailed } from "./EmptyState";
export { EndOfList } from "./EndOfList";
export { ErrorBoundary } from "./ErrorBoundary";
export { Field, Form, FormError, type Option, Select, Switch, TextArea, TextField, textOf } from "./Field";
export { Menu, type MenuEntry } from "./Menu";
export { Ago, Moment, Money } from "./Moment";
export { Prose } from "./Prose";
export { Skeleton, Spinner } from "./Spinner";
export { type Column, Table } from "./Table";
export { type Tab, TabLinks, Tabs } from "./Tabs";
export { Toasts } from "./Toasts";
export { Tooltip } from "./Tooltip";

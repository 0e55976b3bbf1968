// Times, amounts and sizes as the user's locale writes them. All amounts are US dollars, as the server counts.

import { locale, t } from ".";

const DAY_MS = 86_400_000;
const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", DAY_MS],
  ["hour", 3_600_000],
  ["minute", 60_000],
];

export function formatTime(at: string | number | Date): string {
  return new Intl.DateTimeFormat(locale(), { timeStyle: "short" }).format(new Date(at));
}

export function formatDate(at: string | number | Date): string {
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium" }).format(new Date(at));
}

export function formatDateTime(at: string | number | Date): string {
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "short" }).format(new Date(at));
}

/** Return the time of today, else date and time. */
export function formatMoment(at: string | number | Date, now: number = Date.now()): string {
  return startOfDay(new Date(at)) === startOfDay(new Date(now)) ? formatTime(at) : formatDateTime(at);
}

/** Return "5 minutes ago", "in 2 hours", "now". */
export function formatRelative(at: string | number | Date, now: number = Date.now()): string {
  const distance = new Date(at).getTime() - now;
  const format = new Intl.RelativeTimeFormat(locale(), { numeric: "auto", style: "short" });
  for (const [unit, ms] of UNITS) if (Math.abs(distance) >= ms) return format.format(Math.trunc(distance / ms), unit);
  return format.format(0, "second");
}

/** Return the heading of a day in a list: today, yesterday, or the date. */
export function formatDay(at: string | number | Date, now: number = Date.now()): string {
  const days = Math.round((startOfDay(new Date(now)) - startOfDay(new Date(at))) / DAY_MS);
  if (days === 0) return t("common.today");
  if (days === 1) return t("common.yesterday");
  return formatDate(at);
}

function startOfDay(date: Date): number {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
}

/** Return an amount; small ones with two significant digits, so that a cheap answer is not "$0.00". */
export function formatMoney(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return t("common.unknownPrice");
  const digits = usd !== 0 && Math.abs(usd) < 0.1 ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return new Intl.NumberFormat(locale(), { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", ...digits }).format(usd);
}

/** Return "850 ms", "12 s", "2 min 5 s". */
export function formatDuration(ms: number): string {
  const unit = (value: number, name: string, digits = 0) =>
    new Intl.NumberFormat(locale(), { style: "unit", unit: name, unitDisplay: "short", maximumFractionDigits: digits }).format(value);
  if (ms < 1000) return unit(Math.round(ms), "millisecond");
  const seconds = ms / 1000;
  if (seconds < 10) return unit(seconds, "second", 1);
  const whole = Math.round(seconds);
  if (whole < 60) return unit(whole, "second");
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  if (hours) return `${unit(hours, "hour")} ${unit(minutes, "minute")}`;
  return rest ? `${unit(minutes, "minute")} ${unit(rest, "second")}` : unit(minutes, "minute");
}

/** Return the time that is left as a clock: "4:41", "1:02:03". */
export function formatClock(seconds: number): string {
  const left = Math.max(0, Math.ceil(seconds));
  const [hours, minutes, rest] = [Math.floor(left / 3600), Math.floor((left % 3600) / 60), left % 60];
  const two = (value: number) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

export function formatNumber(value: number): string {
  return new Intl.NumberFormat(locale()).format(value);
}

/** Return "1.2K": for tokens and other figures where the magnitude matters. */
export function formatCompact(value: number): string {
  return new Intl.NumberFormat(locale(), { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

export function formatPercent(share: number): string {
  return new Intl.NumberFormat(locale(), { style: "percent", maximumFractionDigits: 1 }).format(share);
}

export function formatBytes(bytes: number): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  const step = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  const options: Intl.NumberFormatOptions = { style: "unit", unitDisplay: "short", maximumFractionDigits: 1 };
  return new Intl.NumberFormat(locale(), { ...options, unit: units[step] ?? "byte" }).format(bytes / 1000 ** step);
}

/** Return an amount in cents, never less than it is. */
export function formatAtMost(usd: number): string {
  return formatMoney(usd < 0.01 ? usd : Math.ceil(usd * 100 - 1e-6) / 100);
}

/** How values are written for people. */
import { signal } from "./vendor/preact.js";

/** The time, so that ages are drawn again as they grow. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1_000);
document.addEventListener("visibilitychange", () => {
  now.value = Date.now();
});

/**
 * A duration as kubectl writes it: k8s.io/apimachinery, pkg/util/duration, HumanDuration.
 * @param {number} ms
 */
export function duration(ms) {
  const seconds = Math.floor(ms / 1_000);
  if (Number.isNaN(seconds)) return "<unknown>";
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return minutes && seconds % 60 ? `${minutes}m${seconds % 60}s` : `${minutes}m`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (hours < 192) return hours % 24 ? `${days}d${hours % 24}h` : `${days}d`;
  if (days < 730) return `${days}d`;
  const years = Math.floor(days / 365);
  if (years < 8) return days % 365 ? `${years}y${days % 365}d` : `${years}y`;
  return `${years}y`;
}

/** @param {string | undefined} timestamp */
export function age(timestamp) {
  return timestamp ? duration(now.value - Date.parse(timestamp)) : "";
}

/**
 * A moment in local time, to the second.
 * @param {string} timestamp
 */
export function moment(timestamp) {
  const date = new Date(timestamp);
  return Number.isNaN(date.valueOf()) ? timestamp : date.toLocaleString(undefined, { hour12: false });
}

/** @param {number} count */
export function number(count) {
  return count.toLocaleString("en");
}

/** @param {number} bytes */
export function byteSize(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1_024 && at < units.length - 1) {
    bytes /= 1_024;
    at++;
  }
  return `${bytes >= 100 || at === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${units[at]}`;
}

/**
 * @param {number} count
 * @param {string} word
 */
export function counted(count, word) {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

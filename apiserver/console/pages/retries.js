/** Tries again what has failed. */

const FIRST_WAIT_MS = 250;
// A server that cannot be reached may be there again soon; one that answers says how it is.
const LONGEST_WAIT_MS = { unreachable: 4_000, answered: 30_000 };
// A server of somebody else's API may ask for anything.
const LONGEST_ASKED_MS = 60_000;

/** @typedef {{code: number, status: any}} Failure an answer; the code is 0 if there was none */

/**
 * Whether a request that failed may succeed as it is: the server could not be reached, or was too busy.
 * @param {number} code of the answer; 0 if there was none
 */
export function isTransient(code) {
  return code === 0 || code === 429 || code >= 500;
}

/**
 * How long a server asks its client to wait, in milliseconds; 0 if it does not say.
 * @param {any} status
 */
export function askedWaitMs(status) {
  const seconds = Number(status?.details?.retryAfterSeconds);
  return seconds > 0 ? Math.min(1_000 * seconds, LONGEST_ASKED_MS) : 0;
}

/** Runs a function again after a while, which grows with each failure in a row. */
export class Retries {
  /** @param {() => unknown} run */
  constructor(run) {
    this.run = run;
    this.waitMs = FIRST_WAIT_MS;
    this.timer = 0;
  }

  /** Whether it will run. */
  get isWaiting() {
    return this.timer !== 0;
  }

  /**
   * Schedules the next run, unless one is scheduled. Not that of all pages at once: they may have lost the same server.
   * @param {Failure} [failure] what has failed; by default the server cannot be reached
   */
  again(failure) {
    if (this.timer) return;
    const longestMs = failure?.code ? LONGEST_WAIT_MS.answered : LONGEST_WAIT_MS.unreachable;
    const waitMs = Math.min(this.waitMs, longestMs) * (0.5 + Math.random() / 2);
    this.timer = setTimeout(
      () => {
        this.timer = 0;
        this.run();
      },
      askedWaitMs(failure?.status) + waitMs,
    );
    this.waitMs = Math.min(this.waitMs * 2, longestMs);
  }

  /** Notes that it has succeeded: it does not run again, and the next failure is the first one. */
  done() {
    this.stop();
    this.waitMs = FIRST_WAIT_MS;
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
  }
}

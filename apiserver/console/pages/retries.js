/** Tries again what has failed. */

const WAIT_MS = { first: 250, last: 4_000 };

/**
 * Whether a request that failed may succeed as it is: the server could not be reached, or was too busy.
 * @param {number} code of the answer; 0 if there was none
 */
export function mayPass(code) {
  return code === 0 || code === 429 || code >= 500;
}

/** Runs a function again after a while, which grows with each failure in a row. */
export class Retries {
  /**
   * @param {() => unknown} run
   * @param {number} [longestMs]
   */
  constructor(run, longestMs = WAIT_MS.last) {
    this.run = run;
    this.longestMs = longestMs;
    this.waitMs = WAIT_MS.first;
    this.timer = 0;
  }

  /** Whether it will run. */
  get isWaiting() {
    return this.timer !== 0;
  }

  /** Has it run, unless it will already. Not all pages at once: they may have lost the same server. */
  again() {
    if (this.timer) return;
    this.timer = setTimeout(
      () => {
        this.timer = 0;
        this.run();
      },
      this.waitMs * (0.5 + Math.random() / 2),
    );
    this.waitMs = Math.min(this.waitMs * 2, this.longestMs);
  }

  /** Notes that it has succeeded: it does not run again, and the next failure is the first one. */
  done() {
    this.stop();
    this.waitMs = WAIT_MS.first;
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
  }
}

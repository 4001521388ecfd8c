/** What this process is among those that have its ledger open: the meter, or a standby. The only one is the meter. */
export class Role {
  readonly #isShared: boolean;
  readonly #led = new AbortController();

  constructor({ isShared }: { readonly isShared: boolean }) {
    this.#isShared = isShared;
  }

  /** Other processes may have the ledger open, of which one leads. */
  get isShared(): boolean {
    return this.#isShared;
  }

  /**
   * Whether what is the meter's alone may be done: the ledger takes its records. It never ends, since a process
   * that does not lead any more ends itself.
   */
  readonly leads = (): boolean => !this.#isShared || this.#led.signal.aborted;

  /** Aborted when this process becomes the meter of several. */
  get led(): AbortSignal {
    return this.#led.signal;
  }

  /** From here on this process is the meter. */
  lead(): void {
    this.#led.abort();
  }
}

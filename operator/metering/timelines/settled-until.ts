/** Up to when windows are closed, by namespace: some namespaces are closed separately. */
export class SettledUntil {
  #end = -Infinity;
  /** Up to when the separate namespaces are closed. */
  readonly #separate = new Map<string, number>();
  /** False until the first list if there is no journal: what closed windows billed is unknown. */
  #pastKnown = false;

  /** Whether it is known what closed windows billed. */
  get isPastKnown(): boolean {
    return this.#pastKnown;
  }

  /** End of the last closed window, milliseconds since the epoch; -Infinity without one. */
  in(namespace: string): number {
    return this.#separate.get(namespace) ?? this.#end;
  }

  /**
   * Notes that windows are closed up to `end`, for the separate namespace `only` or for all others.
   * Returns a test for the namespaces that this covers.
   */
  settle(end: number, only: string | undefined): (namespace: string) => boolean {
    if (only === undefined) {
      this.#end = end;
      return (namespace) => !this.#separate.has(namespace);
    }
    this.#separate.set(only, end);
    return (namespace) => namespace === only;
  }

  setSeparate(namespace: string, end: number): void {
    this.#separate.set(namespace, end);
  }

  rejoin(namespace: string): void {
    this.#separate.delete(namespace);
  }

  /** From now on, what closed windows billed is known. */
  notePast(): void {
    this.#pastKnown = true;
  }

  /** Restores from the journal, which has what windows billed that are closed up to `end`. */
  restore(end: number): void {
    this.#end = end;
    this.#pastKnown = true;
  }
}

/** Up to where windows are closed, by namespace: those of some are closed apart from all others. */
export class SettledUntil {
  #end = -Infinity;
  /** Up to where namespaces are settled that are apart. */
  readonly #separate = new Map<string, number>();
  /** Without a journal nobody knows what closed windows billed of the objects of the first list. */
  #pastKnown = false;

  /** Whether it is known what closed windows billed. */
  get isPastKnown(): boolean {
    return this.#pastKnown;
  }

  /** Milliseconds since the epoch; -Infinity where no window was closed. */
  in(namespace: string): number {
    return this.#separate.get(namespace) ?? this.#end;
  }

  /** Windows are closed up to `end`: those of all namespaces that are not apart, or of the one that is named and is. Tells of which. */
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

  /** From here on it is known what closed windows billed. */
  notePast(): void {
    this.#pastKnown = true;
  }

  /** The journal tells what windows billed that are closed up to `end`. */
  restore(end: number): void {
    this.#end = end;
    this.#pastKnown = true;
  }
}

interface Entry {
  readonly name: string;
  readonly at: number;
}

/** What is to be done when, milliseconds since the epoch, the earliest first: each name once. A change costs little, however many there are. */
export class Agenda {
  readonly #moments = new Map<string, number>();
  /** A heap by moment; with entries that hold no more, which are passed over. */
  #heap: Entry[] = [];

  /** Moves it where it is there already. */
  set(name: string, at: number): void {
    if (this.#moments.get(name) === at) return;
    this.#moments.set(name, at);
    if (this.#heap.length > 2 * this.#moments.size + SPARE) this.#rebuild();
    else this.#push({ name, at });
  }

  delete(name: string): void {
    this.#moments.delete(name);
  }

  /** Undefined where it is not there. */
  momentOf(name: string): number | undefined {
    return this.#moments.get(name);
  }

  /** The earliest moment; `Infinity` where there is none. */
  get nextAt(): number {
    return this.#first()?.at ?? Number.POSITIVE_INFINITY;
  }

  /** Takes out what is due at a moment, the earliest first. */
  take(now: number): readonly string[] {
    const due: string[] = [];
    for (let first = this.#first(); first !== undefined && first.at <= now; first = this.#first()) {
      this.#moments.delete(first.name);
      due.push(first.name);
    }
    return due;
  }

  #first(): Entry | undefined {
    for (;;) {
      const [first] = this.#heap;
      if (first === undefined || this.#moments.get(first.name) === first.at) return first;
      this.#pop();
    }
  }

  #rebuild(): void {
    this.#heap = [...this.#moments]
      .map(([name, at]) => ({ name, at }))
      .toSorted((a, b) => a.at - b.at);
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let place = heap.length;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || above.at <= entry.at) break;
      heap[place] = above;
      place = parent;
    }
    heap[place] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let place = 0;
    for (;;) {
      const [left, right] = [heap[2 * place + 1], heap[2 * place + 2]];
      if (left === undefined) break;
      const isRight = right !== undefined && right.at < left.at;
      const child = isRight ? right : left;
      if (child.at >= last.at) break;
      heap[place] = child;
      place = 2 * place + (isRight ? 2 : 1);
    }
    heap[place] = last;
  }
}

/** Entries that hold no more are kept up to about as many as there are others. */
const SPARE = 64;

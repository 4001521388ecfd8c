import type { Evidence } from './tally.ts';

/** Limit of the linear search, before spans are indexed by object. */
const SEARCHED = 8;

/**
 * The spans of one charge that last beyond its last window. They are many, so they are stored in
 * lists of equal length. The evidence of the first window stands for later ones.
 */
export class OpenSpans {
  /** End of that window, milliseconds since the epoch. */
  readonly reached: number;
  #numbers: number[] = [];
  #evidence: Evidence[] = [];
  #rates: (bigint | undefined)[] = [];

  constructor(reached: number) {
    this.reached = reached;
  }

  /** Adds an unchanged object; `rate` is in nano-units, undefined where it varied. */
  add(number: number, evidence: Evidence, rate: bigint | undefined): void {
    this.#numbers.push(number);
    this.#evidence.push(evidence);
    this.#rates.push(rate);
  }

  /** Copies a lasting span from the previous window. */
  addFrom(before: OpenSpans, index: number): void {
    const evidence = before.#evidence[index];
    if (evidence !== undefined) this.add(before.numberAt(index), evidence, before.rateAt(index));
  }

  numberAt(index: number): number {
    return this.#numbers[index] ?? 0;
  }

  rateAt(index: number): bigint | undefined {
    return this.#rates[index];
  }

  /** Call it after the last addition: it frees the spare memory of growing lists. */
  complete(): this {
    this.#numbers = this.#numbers.slice();
    this.#evidence = this.#evidence.slice();
    this.#rates = this.#rates.slice();
    return this;
  }

  /** Matches spans with the evidence of a window that starts at `start`, each span once. */
  matching(start: number) {
    const taken = new Uint8Array(this.#numbers.length);
    /** Objects nearly always come in the order of the previous window. */
    let next = 0;
    let byUid: Map<string, number[]> | undefined;

    const indexOf = (evidence: Evidence): number | undefined => {
      const expected = this.#evidence[next];
      if (expected !== undefined && taken[next] === 0 && isSame(expected, evidence)) return next;
      // Few spans in a row have ended in the previous window or changed in this one.
      for (let index = next + 1; index <= next + SEARCHED; index += 1) {
        if (taken[index] === 0 && isSame(this.#evidence[index], evidence)) return index;
      }
      byUid ??= this.#indicesByUid();
      return byUid
        .get(evidence.object.uid)
        ?.find((index) => taken[index] === 0 && isSame(this.#evidence[index], evidence));
    };

    return {
      /** Returns the index of the span that this evidence continues; undefined where it is new. */
      take: (evidence: Evidence): number | undefined => {
        if (start !== this.reached) return undefined;
        const index = indexOf(evidence);
        if (index === undefined) return undefined;
        taken[index] = 1;
        next = index + 1;
        return index;
      },
      /** Returns the numbers of the spans that no evidence continued. */
      left: (): readonly number[] => this.#numbers.filter((_, index) => taken[index] === 0),
    };
  }

  #indicesByUid(): Map<string, number[]> {
    const indices = new Map<string, number[]>();
    for (const [index, { object }] of this.#evidence.entries()) {
      const known = indices.get(object.uid);
      if (known === undefined) indices.set(object.uid, [index]);
      else known.push(index);
    }
    return indices;
  }
}

/** Whether both describe the same object in the same state. */
function isSame(a: Evidence | undefined, b: Evidence): boolean {
  return (
    a !== undefined &&
    a.kind === b.kind &&
    isSameObject(a.object, b.object) &&
    a.node === b.node &&
    (a.mapped ?? false) === (b.mapped ?? false) &&
    isSameState(a.state, b.state) &&
    isSameGpus(a.gpus, b.gpus)
  );
}

function isSameObject(a: Evidence['object'], b: Evidence['object']): boolean {
  if (a === b) return true;
  return a.uid === b.uid && a.name === b.name && a.namespace === b.namespace;
}

function isSameState(a: Evidence['state'], b: Evidence['state']): boolean {
  return (
    a === b ||
    (a.labels === b.labels && a.requests === b.requests && a.size === b.size && a.node === b.node)
  );
}

function isSameGpus(a: Evidence['gpus'], b: Evidence['gpus']): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    a.devices === b.devices &&
    a.units === b.units &&
    a.asDevices === b.asDevices &&
    a.device.type === b.device.type &&
    a.device.profile === b.device.profile
  );
}

import type { Evidence } from './tally.ts';

/** How many are looked at before all are sorted by their objects. */
const LOOKED_AT = 8;

/**
 * The spans of one charge that go on after its last window. They are many, so they are kept in lists of
 * one length, and what was measured first stands for what is measured since.
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

  get isEmpty(): boolean {
    return this.#numbers.length === 0;
  }

  /** An object that goes on unchanged; `rate` in nano-units, undefined where it was not the same all the time. */
  add(number: number, evidence: Evidence, rate: bigint | undefined): void {
    this.#numbers.push(number);
    this.#evidence.push(evidence);
    this.#rates.push(rate);
  }

  /** Adds one that goes on of those before, as it is there. */
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

  /** To be called when all are added: gives back the room that lists take to grow. */
  complete(): this {
    this.#numbers = this.#numbers.slice();
    this.#evidence = this.#evidence.slice();
    this.#rates = this.#rates.slice();
    return this;
  }

  /** Finds which of them go on, each once, in a window that starts then. */
  matching(start: number) {
    const taken = new Uint8Array(this.#numbers.length);
    /** Objects nearly always come in the same order as in the window before. */
    let next = 0;
    let byUid: Map<string, number[]> | undefined;

    const indexOf = (evidence: Evidence): number | undefined => {
      const expected = this.#evidence[next];
      if (expected !== undefined && taken[next] === 0 && isSame(expected, evidence)) return next;
      // Of those that ended in the window before, or changed in this one, there are few in a row.
      for (let index = next + 1; index <= next + LOOKED_AT; index += 1) {
        if (taken[index] === 0 && isSame(this.#evidence[index], evidence)) return index;
      }
      byUid ??= this.#indicesByUid();
      return byUid
        .get(evidence.object.uid)
        ?.find((index) => taken[index] === 0 && isSame(this.#evidence[index], evidence));
    };

    return {
      /** The place of the span that goes on with this; undefined where it is new. */
      take: (evidence: Evidence): number | undefined => {
        if (start !== this.reached) return undefined;
        const index = indexOf(evidence);
        if (index === undefined) return undefined;
        taken[index] = 1;
        next = index + 1;
        return index;
      },
      /** The numbers of those that nothing went on with. */
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

/** Whether both say the same of the same object. */
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

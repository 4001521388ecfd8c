import { type Charge, job } from './honest-estate.ts';
import type { World } from './world.ts';

/** Pods of an honest tenant cluster that come and go, one for each window, and what each has to cost. */
export class Jobs {
  readonly #world: Pick<World, 'order'>;
  readonly #charges = new Map<number, readonly Charge[]>();
  #running: { readonly number: number; readonly startedAt: number }[] = [];
  #last = 0;

  constructor(world: Pick<World, 'order'>) {
    this.#world = world;
  }

  charges(): readonly Charge[] {
    return [...this.#charges.values()].flat();
  }

  async begin(): Promise<void> {
    this.#last += 1;
    const startedAt = wholeSecond();
    this.#running.push({ number: this.#last, startedAt });
    const { put, charges } = job(this.#last, startedAt, undefined);
    this.#charges.set(this.#last, charges);
    await this.#world.order({ puts: [put] });
  }

  /** Ends those that began before the last one, and removes what ended long ago. */
  async end(): Promise<void> {
    const at = wholeSecond();
    const old = this.#running.filter(({ number }) => number < this.#last);
    this.#running = this.#running.filter(({ number }) => number === this.#last);
    const puts = old.map(({ number, startedAt }) => {
      const { put, charges } = job(number, startedAt, at);
      this.#charges.set(number, charges);
      return put;
    });
    const gone = job(this.#last - 3, 0, undefined).put.path;
    await this.#world.order({ puts, deletions: [gone] });
  }
}

/** The API tells seconds. */
function wholeSecond(): number {
  return Math.floor(Date.now() / 1000) * 1000;
}

import type { Ledger } from '../../../../operator/ledger/ledger.ts';
import { pushedTo } from '../windows.ts';
import type { Beside, StreamWriter } from '../writer-process.ts';
import { contradictions } from './contradictions.ts';
import { ReplicaProcess, type ReplicaProcessOptions } from './replica-process.ts';

/** Several processes that have a stream open, one of which is its meter. */
export interface ReplicaSet extends StreamWriter {
  /** The one that leads. */
  readonly meter: ReplicaProcess;
  /** Makes another one lead, and gives the one that did until then. */
  handOver(): Promise<ReplicaProcess>;
  /** Makes another one lead that is not `former`. */
  takeOver(former: ReplicaProcess): Promise<void>;
  /** Starts others for those that have ended, as far as two run in the end. */
  complete(): Promise<void>;
}

const SIZE = 2;

/** The first of them leads and feeds when it resolves. */
export async function startReplicas(
  options: Omit<ReplicaProcessOptions, 'label'>,
): Promise<ReplicaSet> {
  const replicas = new Replicas(options);
  await replicas.complete(1);
  await replicas.begin();
  await replicas.complete();
  return replicas;
}

class Replicas implements ReplicaSet {
  readonly #options: Omit<ReplicaProcessOptions, 'label'>;
  readonly #all: ReplicaProcess[] = [];
  #meter: ReplicaProcess | undefined;
  #term = 0;

  constructor(options: Omit<ReplicaProcessOptions, 'label'>) {
    this.#options = options;
  }

  get meter(): ReplicaProcess {
    if (this.#meter === undefined) throw new Error('replicas: nobody leads');
    return this.#meter;
  }

  async begin(): Promise<void> {
    const [first] = this.#all;
    if (first === undefined) throw new Error('replicas: there is none');
    await this.#lead(first);
    await first.until('feeding', () => first.said('holds').length > 0);
  }

  async handOver(): Promise<ReplicaProcess> {
    const former = this.meter;
    await this.takeOver(former);
    return former;
  }

  async takeOver(former: ReplicaProcess): Promise<void> {
    const next = this.#all.find((each) => each !== former && !each.hasEnded);
    if (next === undefined) throw new Error('replicas: there is no other');
    await this.#lead(next);
  }

  async complete(size = SIZE): Promise<void> {
    while (this.#all.filter(({ hasEnded }) => !hasEnded).length < size) {
      const label = `replica-${this.#all.length}`;
      const added = new ReplicaProcess({ ...this.#options, label });
      this.#all.push(added);
      await added.until('joined', () => added.said('joined').length > 0);
      // What cannot even join is no reason to start the next one.
      if (added.stopped !== undefined) return;
    }
  }

  newest(): ReturnType<StreamWriter['newest']> {
    const closed = this.#all.flatMap((each) => each.said('closed'));
    if (closed.length === 0) return undefined;
    const newest = closed.reduce((a, b) => (b.window > a.window ? b : a));
    const cursors = this.#all.flatMap((each) => each.said('moved').map(({ cursor }) => cursor));
    return {
      window: newest.window,
      cursor: cursors.reduce((a, b) => Math.max(a, b), 0),
      credits: 0,
    };
  }

  repeats(): number {
    const closed = this.#all.flatMap((each) => each.said('closed'));
    return closed.reduce((sum, { repeats }) => sum + repeats, 0);
  }

  foundFull(): boolean {
    return this.#all.some((each) => each.said('refused').some(({ cause }) => cause === 'full'));
  }

  wrong(): readonly string[] {
    return this.#all.flatMap((each) => each.said('wrong').map(({ text }) => text));
  }

  stopped(): string | undefined {
    return this.#all.map(({ stopped }) => stopped).find((text) => text !== undefined);
  }

  async more(windows: number): Promise<void> {
    const { meter } = this;
    const last = (this.newest()?.window ?? -1) + windows;
    await meter.until('closing windows', () => (meter.said('closed').at(-1)?.window ?? -1) >= last);
  }

  async end(): Promise<void> {
    for (const each of this.#all) if (!each.hasEnded) await each.end();
  }

  beside(): readonly Beside[] {
    return this.#all.flatMap((each) => {
      const newest = each.said('pushed').at(-1)?.number ?? -1;
      // One may have been under way when it ended.
      return Array.from({ length: newest + 2 }, (_, number) => ({
        event: pushedTo(each.label, number),
        acknowledged: number <= newest,
      }));
    });
  }

  contradictions(ledger: Ledger): Promise<readonly string[]> {
    return contradictions(this.#all, ledger);
  }

  async #lead(next: ReplicaProcess): Promise<void> {
    this.#term += 1;
    await next.lead(this.#term);
    this.#meter = next;
  }
}

import { setTimeout as delay } from 'node:timers/promises';
import type { RigPod } from './pod.ts';

/** A stretch in which one process leads, by its own report. */
export interface Term {
  readonly pod: string;
  readonly pid: number;
  /** When it was first seen to lead, milliseconds since the epoch: at most a poll and an answer late. */
  readonly from: number;
}

const EVERY_MS = 100;
const PATIENCE_MS = 1_000;

/** Polls every process for whether it leads. A frozen process keeps the answer that it gave last. */
export class LeaderLog {
  readonly #pods: readonly RigPod[];
  readonly #stopping = new AbortController();
  readonly #terms: Term[] = [];
  /** By pod: the process whose newest answer was that it leads. */
  readonly #leading = new Map<string, number>();
  readonly #polls: Promise<unknown>;

  constructor(pods: readonly RigPod[]) {
    this.#pods = pods;
    this.#polls = Promise.all(pods.map((pod) => this.#poll(pod)));
  }

  /** In the order in which they began. */
  terms(): readonly Term[] {
    return this.#terms;
  }

  /** The process whose term began last, while it reports so; undefined when there is none. */
  leader(): RigPod | undefined {
    const newest = this.#terms.at(-1);
    const pod = this.#pods.find(({ name }) => name === newest?.pod);
    if (pod === undefined || pod.pid !== newest?.pid) return undefined;
    return this.#leading.get(pod.name) === pod.pid ? pod : undefined;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#polls;
  }

  async #poll(pod: RigPod): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const { pid } = pod;
      const leads = pid === undefined ? false : await reportsToLead(pod.address);
      // Answers of an earlier process count for nothing.
      if (pid !== undefined && pid === pod.pid) this.#note(pod.name, pid, leads);
      await delay(EVERY_MS);
    }
  }

  #note(pod: string, pid: number, leads: boolean | undefined): void {
    if (leads === undefined) return;
    const led = this.#leading.get(pod) === pid;
    if (!leads) this.#leading.delete(pod);
    if (!leads || led) return;
    this.#leading.set(pod, pid);
    this.#terms.push({ pod, pid, from: Date.now() });
  }
}

/** Whether a process reports that it leads; undefined when it does not answer. */
export async function reportsToLead(address: string): Promise<boolean | undefined> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  try {
    const answer = await fetch(`${address}/leaderz`, { signal });
    await answer.arrayBuffer();
    if (answer.status !== 404) return answer.status === 200;
    const metrics = await (await fetch(`${address}/metrics`, { signal })).text();
    return /^meterfeed_leading 1$/m.test(metrics);
  } catch {
    return undefined;
  }
}

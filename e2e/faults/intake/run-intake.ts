import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LedgerDatabase } from '../../../operator/settings/settings.ts';
import type { ReportedRequest } from '../../../operator/intake/reported-request.ts';
import { scratchDirectory } from '../../../operator/ledger/testing/scratch.ts';
import { createRandom, type Random } from '../random.ts';
import { type Answer, HOUR_TAKES_MS, type Order, processTime, type Start } from './messages.ts';

/** One run: senders that repeat until they are answered, and kills of the process in between. */
export interface IntakeRun {
  readonly seed: number;
  readonly requests: number;
  readonly kills: number;
  /** Requests that a sender knows to be taken, and that are in no event. */
  readonly lost: number;
  /** Requests that count more than once, and events that may exist once only. */
  readonly duplicated: number;
  /** Requests that the process was sent more than once. */
  readonly repeats: number;
}

const BODIES = 60;
const MOST_IN_A_BODY = 160;
const SENDERS = 6;
const KILLS = 3;
const HOUR_MS = 3_600_000;
const ZERO = Date.parse('2026-11-20T23:10:00Z');
const TENANTS = ['acme', 'umbrella', 'stranger-1'] as const;

/** Runs one seed. The ledger is in the database, which is empty, or in a directory. */
export async function runIntake(seed: number, database?: LedgerDatabase): Promise<IntakeRun> {
  const random = createRandom(seed);
  const { path, remove } = await scratchDirectory();
  const suite = new Suite({ directory: path, database }, random);
  try {
    return { seed, ...(await suite.run()) };
  } finally {
    await suite.end();
    await remove();
  }
}

/** A request whose time is not fixed before it is sent. */
type Planned = Omit<ReportedRequest, 'at'> & { readonly age: number };

class Suite {
  readonly #random: Random;
  readonly #start: Start;
  readonly #bodies: readonly (readonly Planned[])[];
  /** The requests of each body that was sent; a repeat is the same. */
  readonly #sent = new Map<number, readonly ReportedRequest[]>();
  readonly #expected = new Map<string, bigint>();
  readonly #waiting = new Map<number, (answer: Answer | undefined) => void>();
  #process: Promise<ChildProcess>;
  #kills = 0;
  #repeats = 0;

  constructor(place: Pick<Start, 'directory' | 'database'>, random: Random) {
    this.#random = random;
    const since = Date.now();
    // Repeats of a run stay within the bound, also while the machine is busy.
    this.#start = { ...place, since, zero: ZERO, lateForMs: 24 * HOUR_MS };
    this.#bodies = Array.from({ length: BODIES }, (_, body) => this.#makeBody(body));
    this.#process = this.#spawn();
  }

  async run(): Promise<Omit<IntakeRun, 'seed'>> {
    const todo = [...this.#bodies.keys()];
    const sending = Array.from({ length: SENDERS }, async () => {
      for (let body = todo.shift(); body !== undefined; body = todo.shift()) {
        await this.#sendUntilTaken(body);
        if (this.#random.chance(0.2)) await this.#sendUntilTaken(this.#random.between(0, body));
      }
    });
    const killing = (async () => {
      for (let kill = 0; kill < KILLS; kill++) {
        await sleep(this.#random.between(1, 400));
        await this.#kill();
      }
    })();
    await Promise.all([...sending, killing]);
    // Once more while everything is closed.
    const closing = this.#total();
    await sleep(this.#random.between(1, Math.floor(1.2 * HOUR_TAKES_MS)));
    await this.#kill();
    await closing;
    return this.#compare(await this.#untilTotal());
  }

  async end(): Promise<void> {
    const child = await this.#process;
    child.kill('SIGKILL');
  }

  #compare({ sums, repeated }: Extract<Answer, { kind: 'total' }>): Omit<IntakeRun, 'seed'> {
    const requests = this.#bodies.flat().length;
    let lost = 0;
    let duplicated = repeated;
    for (const [key, expected] of this.#expected) {
      const difference = BigInt(sums[key] ?? '0') - expected;
      const count = key.endsWith('_requests') ? Number(difference) : Math.sign(Number(difference));
      if (difference < 0n) lost -= count;
      else duplicated += count;
    }
    return { requests, kills: this.#kills, repeats: this.#repeats, lost, duplicated };
  }

  async #untilTotal(): Promise<Extract<Answer, { kind: 'total' }>> {
    for (;;) {
      const answer = await this.#total();
      if (answer?.kind === 'total') return answer;
    }
  }

  #total(): Promise<Answer | undefined> {
    return this.#exchange(-1, { kind: 'total' });
  }

  async #sendUntilTaken(body: number): Promise<void> {
    const requests = this.#sent.get(body) ?? this.#requestsOf(body);
    this.#sent.set(body, requests);
    for (let attempt = 0; ; attempt++) {
      if (attempt > 0) this.#repeats += requests.length;
      const answer = await this.#exchange(body, { kind: 'accept', body, requests });
      if (answer?.kind !== 'taken') continue;
      const refused = answer.receptions.find(({ kind }) => kind === 'refused');
      if (refused === undefined) return;
      throw new Error(`refused: ${JSON.stringify(refused)}`);
    }
  }

  #requestsOf(body: number): readonly ReportedRequest[] {
    const now = processTime(this.#start);
    const planned = this.#bodies[body] ?? [];
    return planned.map(({ age, ...request }) => ({ ...request, at: now - age }));
  }

  /** The answer to an order; undefined if the process ended before it. One body at a time. */
  async #exchange(body: number, order: Order): Promise<Answer | undefined> {
    const child = await this.#process;
    if (this.#waiting.has(body)) {
      await sleep(1);
      return undefined;
    }
    return new Promise((resolve) => {
      this.#waiting.set(body, resolve);
      child.send(order, (error) => {
        if (error) this.#settle(body, undefined);
      });
    });
  }

  #settle(body: number, answer: Answer | undefined): void {
    const resolve = this.#waiting.get(body);
    this.#waiting.delete(body);
    resolve?.(answer);
  }

  async #kill(): Promise<void> {
    const child = await this.#process;
    this.#process = (async () => {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
      for (const body of this.#waiting.keys()) this.#settle(body, undefined);
      return this.#spawn();
    })();
    this.#kills += 1;
    await this.#process;
  }

  async #spawn(): Promise<ChildProcess> {
    const file = new URL('intake-process.ts', import.meta.url);
    const child = fork(file, [JSON.stringify(this.#start)]);
    const [ready] = (await once(child, 'message')) as [Answer];
    if (ready.kind !== 'ready') throw new Error(`not ready: ${JSON.stringify(ready)}`);
    child.on('message', (answer: Answer) => {
      if (answer.kind === 'ready') return;
      this.#settle(answer.kind === 'total' ? -1 : answer.body, answer);
    });
    return child;
  }

  /** Requests of the last two hours, so that many are late. Expects each of them once. */
  #makeBody(body: number): readonly Planned[] {
    const random = this.#random;
    const size = random.chance(0.3) ? 1 : random.between(2, MOST_IN_A_BODY);
    return Array.from({ length: size }, (_, position): Planned => {
      const tenant = random.pick(TENANTS);
      const tokens = random.between(1, 5_000);
      this.#expect(`${tenant} tenant_inference_tokens`, BigInt(tokens));
      this.#expect(`${tenant} tenant_inference_requests`, 1n);
      const model = `model-${random.between(0, 3)}`;
      return {
        key: `key-${body}-${position}`,
        source: 'faults',
        id: `${body}-${position}`,
        subject: tenant,
        tenant,
        age: random.between(0, 2 * HOUR_MS),
        quantities: [
          {
            metric: 'tenant_inference_tokens',
            dimensions: { model, token_type: 'input' },
            quantity: String(tokens),
          },
          { metric: 'tenant_inference_requests', dimensions: { model }, quantity: '1' },
        ],
      };
    });
  }

  #expect(key: string, quantity: bigint): void {
    this.#expected.set(key, (this.#expected.get(key) ?? 0n) + quantity);
  }
}

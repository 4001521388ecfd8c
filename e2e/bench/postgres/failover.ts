import { setTimeout as delay } from 'node:timers/promises';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import type { Trio } from '../../postgres/trio.ts';
import { benchWindow } from '../ledger-events.ts';
import { quantile } from '../quantile.ts';
import { openStream } from './open-stream.ts';

export interface FailoverFigures {
  readonly rounds: number;
  /** Seconds from the kill of the primary to the first append that is acknowledged after it, the standby being promoted at once. */
  readonly p50: number;
  readonly max: number;
  /** Of the promotion alone, half of the time. */
  readonly promotionP50: number;
  /** Acknowledged events that are missing afterwards. */
  readonly lost: number;
}

const BATCH_EVENTS = 100;
const ANSWER_MS = 2_000;
const RETRY_MS = 5;
/** Appends before and after each kill. */
const APPENDS = 20;

/** Kills the primary so many times, each time in the midst of a batch, and promotes a standby. */
export async function measureFailover(trio: Trio, passes: number): Promise<FailoverFigures> {
  const database = await trio.createDatabase();
  const ledger = await openStream(database, 'failover', { answerMs: ANSWER_MS });
  const writer = new Writer(ledger);
  const outages: number[] = [];
  const promotions: number[] = [];
  for (let round = 0; round < passes; round++) {
    for (let count = 0; count < APPENDS; count++) await writer.appendOnce();
    const writing = writer.appendOnce();
    await delay(round % 10);
    const killedAt = performance.now();
    trio.kill();
    await trio.promote();
    const promotedAt = performance.now();
    promotions.push((promotedAt - killedAt) / 1_000);
    await writing;
    await writer.appendOnce();
    // What came before was confirmed by the primary that is lost.
    outages.push((writer.acknowledgedAfter(promotedAt) - killedAt) / 1_000);
    await trio.complete();
  }
  const lost = await writer.missing();
  await ledger.close();
  return {
    rounds: passes,
    p50: quantile(outages, 0.5),
    max: quantile(outages, 1),
    promotionP50: quantile(promotions, 0.5),
    lost,
  };
}

/** Appends windows one after the other, each until it is acknowledged. */
class Writer {
  readonly #ledger: Ledger;
  /** When each was acknowledged. */
  readonly #acknowledged: number[] = [];
  #window = 0;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  async appendOnce(): Promise<void> {
    const events = benchWindow(this.#window, BATCH_EVENTS);
    this.#window += 1;
    for (;;) {
      const outcome = await this.#ledger.append({ events });
      if (outcome.kind === 'appended') break;
      if (outcome.cause !== 'retryable') throw new Error(outcome.message);
      await delay(RETRY_MS);
    }
    this.#acknowledged.push(performance.now());
  }

  /** The first acknowledgement of a batch that ended after a moment. */
  acknowledgedAfter(moment: number): number {
    return this.#acknowledged.find((at) => at > moment) ?? Number.NaN;
  }

  /** How many of the events that were acknowledged the ledger lacks. */
  async missing(): Promise<number> {
    const ids = new Set<string>();
    for await (const { event } of this.#ledger.scan(0, Number.MAX_SAFE_INTEGER)) ids.add(event.id);
    return this.#window * BATCH_EVENTS - ids.size;
  }
}

import type { Clock } from '../telemetry/clock.ts';
import { planCommit, planMove, planRetire } from './cursor-moves.ts';
import type { Ledger, WriteOutcome } from './ledger.ts';
import type { LedgerMetrics } from './ledger-metrics.ts';
import { encodeEvents, type Request, type WriteRequestOutcome } from './writer.ts';

/** The writes of a ledger, the same for both engines. Public members are bound. */
export abstract class LedgerWrites {
  readonly #clock: Clock;
  readonly #metrics: LedgerMetrics;
  #closing: Promise<void> | undefined;

  constructor({ clock, metrics }: { readonly clock: Clock; readonly metrics: LedgerMetrics }) {
    this.#clock = clock;
    this.#metrics = metrics;
  }

  /** Queues a request for the next batch; see {@link Writer.submit}. */
  protected abstract submit(request: Request, bounded: boolean): Promise<WriteRequestOutcome>;

  /** Waits for queued writes, then closes the storage. */
  protected abstract end(): Promise<void>;

  readonly append: Ledger['append'] = async ({ events, records = [], windowEnd }) => {
    const startedAt = this.#clock.monotonic();
    const request: Request = { kind: 'append', events: encodeEvents(events), records, windowEnd };
    const outcome = await this.submit(request, windowEnd === undefined);
    if (outcome.kind === 'appended') {
      const accepted = outcome.outcomes.filter((word) => word === 'accepted').length;
      const duplicates = outcome.outcomes.filter((word) => word === 'duplicate').length;
      this.#metrics.appended(accepted, duplicates, (this.#clock.monotonic() - startedAt) / 1_000);
    }
    return outcome;
  };

  readonly writeRecords: Ledger['writeRecords'] = (records) =>
    this.#write({ kind: 'append', events: [], records });

  readonly commitCursor: Ledger['commitCursor'] = (destination, sequence, { from, records } = {}) =>
    this.#write({
      kind: 'cursor',
      destination,
      records,
      plan: (current, head) => planCommit(current, destination, sequence, head, from),
    });

  readonly moveCursor: Ledger['moveCursor'] = (destination, sequence) =>
    this.#write({
      kind: 'cursor',
      destination,
      plan: (_, head) => planMove(destination, sequence, head),
    });

  readonly retireCursor: Ledger['retireCursor'] = (destination, at) =>
    this.#write({
      kind: 'cursor',
      destination,
      plan: (current) => ({ kind: 'move', cursor: planRetire(current, at) }),
    });

  readonly dropCursor: Ledger['dropCursor'] = (destination) =>
    this.#write({ kind: 'cursor', destination, plan: () => 'drop' });

  readonly close: Ledger['close'] = () => {
    this.#closing ??= this.end();
    return this.#closing;
  };

  async #write(request: Request): Promise<WriteOutcome> {
    const outcome = await this.submit(request, false);
    return outcome.kind === 'failed' ? outcome : { kind: 'written' };
  }
}

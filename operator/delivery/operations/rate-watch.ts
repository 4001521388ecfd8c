import type { Ledger } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { DestinationStatus } from '../destination-status.ts';

const SAMPLE_EVERY_MS = 60_000;
/** As long as the longest window. Over less time, a single window would look like a flood. */
const SPAN_MS = 3_600_000;

/** Events a second. */
export interface EventRate {
  /** Most events that the destination accepts. */
  readonly allowed: number;
  /** Events that arrive, over the last hour, rounded up to two digits. */
  readonly needed: number;
}

type RatedStatus = Pick<DestinationStatus, 'eventsPerSecond' | 'delivered' | 'skipped'>;

/** Compares the rate at which usage arrives with each destination's limit. */
export class RateWatch {
  readonly #ledger: Pick<Ledger, 'head'>;
  readonly #clock: Clock;
  #samples: readonly { readonly at: number; readonly head: number }[] = [];

  constructor(ledger: Pick<Ledger, 'head'>, clock: Clock) {
    this.#ledger = ledger;
    this.#clock = clock;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const at = this.#clock.monotonic();
      const recent = this.#samples.filter((earlier) => at - earlier.at <= SPAN_MS);
      this.#samples = [...recent, { at, head: this.#ledger.head() }];
      await this.#clock.sleep(SAMPLE_EVERY_MS, signal).catch(() => undefined);
    }
  }

  /** Returns the rate; undefined if the destination has no limit, and before the first sample. */
  rateOf(status: RatedStatus): EventRate | undefined {
    const { eventsPerSecond: allowed } = status;
    const needed = this.#arriving(status);
    if (allowed === undefined || needed === undefined) return undefined;
    return { allowed, needed: needed <= 0 ? 0 : roundedUp(needed) };
  }

  /** Returns the rate if more arrives than the destination accepts; undefined if not or unknown. */
  tooSlow(status: RatedStatus): EventRate | undefined {
    const rate = this.rateOf(status);
    const needed = this.#arriving(status) ?? 0;
    return rate === undefined || needed <= rate.allowed ? undefined : rate;
  }

  /** Returns a destination's events a second over the last hour; undefined before a sample. */
  #arriving({ delivered, skipped }: RatedStatus): number | undefined {
    const [first] = this.#samples;
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined) return undefined;
    const wanted = delivered + skipped === 0 ? 1 : delivered / (delivered + skipped);
    return ((last.head - first.head) / (SPAN_MS / 1000)) * wanted;
  }
}

/** Rounds up to two digits, so that the shown figure is stable. */
function roundedUp(value: number): number {
  if (value < 10) return Math.ceil(value * 10) / 10;
  const unit = 10 ** (Math.floor(Math.log10(value)) - 1);
  return Math.ceil(value / unit) * unit;
}

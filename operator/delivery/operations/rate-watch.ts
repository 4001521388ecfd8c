import type { Ledger } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { DestinationStatus } from '../destination-status.ts';

const SAMPLE_EVERY_MS = 60_000;
/** As long as the longest window: over less, a single one would look like a flood. */
const SPAN_MS = 3_600_000;

/** Events a second. */
export interface Rate {
  /** What the destination takes. */
  readonly allowed: number;
  /** What comes, by the last hour, rounded up to two digits. */
  readonly needed: number;
}

/** A destination takes fewer events a second than come. */
export type TooSlow = Rate;

type RatedStatus = Pick<DestinationStatus, 'eventsPerSecond' | 'delivered' | 'skipped'>;

/** Holds the rate at which usage comes against what each destination takes. */
export interface RateWatch {
  run(signal: AbortSignal): Promise<void>;
  /** Undefined where the destination names no limit, and before the first sample. */
  rateOf(status: RatedStatus): Rate | undefined;
  /** Undefined while the destination can keep up, as far as is known. */
  tooSlow(status: RatedStatus): TooSlow | undefined;
}

export function createRateWatch(ledger: Pick<Ledger, 'head'>, clock: Clock): RateWatch {
  let samples: readonly { readonly at: number; readonly head: number }[] = [];

  const sample = (): void => {
    const at = clock.monotonic();
    const kept = samples.filter((earlier) => at - earlier.at <= SPAN_MS);
    samples = [...kept, { at, head: ledger.head() }];
  };

  /** Events a second that come for a destination, by the last hour; undefined before the first sample. */
  const coming = ({ delivered, skipped }: RatedStatus): number | undefined => {
    const [first] = samples;
    const last = samples.at(-1);
    if (first === undefined || last === undefined) return undefined;
    const wanted = delivered + skipped === 0 ? 1 : delivered / (delivered + skipped);
    return ((last.head - first.head) / (SPAN_MS / 1000)) * wanted;
  };
  const rateOf = (status: RatedStatus): Rate | undefined => {
    const { eventsPerSecond: allowed } = status;
    const needed = coming(status);
    if (allowed === undefined || needed === undefined) return undefined;
    return { allowed, needed: needed <= 0 ? 0 : roundedUp(needed) };
  };

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        sample();
        await clock.sleep(SAMPLE_EVERY_MS, signal).catch(() => undefined);
      }
    },
    rateOf,
    tooSlow: (status) => {
      const rate = rateOf(status);
      const needed = coming(status) ?? 0;
      return rate === undefined || needed <= rate.allowed ? undefined : rate;
    },
  };
}

/** To two digits, so that what is shown does not change all the time. */
function roundedUp(value: number): number {
  if (value < 10) return Math.ceil(value * 10) / 10;
  const unit = 10 ** (Math.floor(Math.log10(value)) - 1);
  return Math.ceil(value / unit) * unit;
}

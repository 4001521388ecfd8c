import type { Ledger } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { DestinationStatus } from '../destination-status.ts';

const SAMPLE_EVERY_MS = 60_000;
/** As long as the longest window: over less, a single one would look like a flood. */
const SPAN_MS = 3_600_000;

/** A destination takes fewer events a second than come. */
export interface TooSlow {
  /** Events a second that it takes. */
  readonly allowed: number;
  /** Events a second that come, rounded up to two digits. */
  readonly needed: number;
}

/** Holds the rate at which usage comes against what each destination takes. */
export interface RateWatch {
  run(signal: AbortSignal): Promise<void>;
  /** Undefined while the destination can keep up, as far as is known. */
  tooSlow(
    status: Pick<DestinationStatus, 'eventsPerSecond' | 'delivered' | 'skipped'>,
  ): TooSlow | undefined;
}

export function createRateWatch(ledger: Pick<Ledger, 'head'>, clock: Clock): RateWatch {
  let samples: readonly { readonly at: number; readonly head: number }[] = [];

  const sample = (): void => {
    const at = clock.monotonic();
    const kept = samples.filter((earlier) => at - earlier.at <= SPAN_MS);
    samples = [...kept, { at, head: ledger.head() }];
  };

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        sample();
        await clock.sleep(SAMPLE_EVERY_MS, signal).catch(() => undefined);
      }
    },
    tooSlow: ({ eventsPerSecond, delivered, skipped }) => {
      const [first] = samples;
      const last = samples.at(-1);
      if (eventsPerSecond === undefined || first === undefined || last === undefined) {
        return undefined;
      }
      const wanted = delivered + skipped === 0 ? 1 : delivered / (delivered + skipped);
      const coming = ((last.head - first.head) / (SPAN_MS / 1000)) * wanted;
      if (coming <= eventsPerSecond) return undefined;
      return { allowed: eventsPerSecond, needed: roundedUp(coming) };
    },
  };
}

/** To two digits, so that what is shown does not change all the time. */
function roundedUp(value: number): number {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.ceil(value / unit) * unit;
}

import type { MetricFilter } from '../../config/settings.ts';
import type { Destination, StepOutcome } from '../../destinations/destination.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import { errorText } from '../../model/error-text.ts';
import type { BlockReason } from '../delivery-result.ts';
import { wantedMetrics } from './event-filter.ts';

/**
 * Prepares a destination before its first event and whenever the catalogue changes. It is tried for
 * ever and holds up this destination only: an event that arrives before its metric exists would at
 * some billing systems never be billed.
 */
export interface Bootstrap {
  /** Why it is not prepared; undefined when it is. */
  ensure(signal: AbortSignal): Promise<BlockReason | undefined>;
  /** Does it once more, to see whether the destination answers. */
  probe(signal: AbortSignal): Promise<StepOutcome>;
  isReady(): boolean;
  failures(): number;
}

export function createBootstrap(
  destination: Destination,
  filter: MetricFilter | undefined,
  catalog: () => readonly MetricDefinition[],
): Bootstrap {
  let readyFor: string | undefined;
  let failures = 0;

  const wanted = (): readonly MetricDefinition[] => wantedMetrics(catalog(), destination, filter);
  const attempt = async (
    metrics: readonly MetricDefinition[],
    signal: AbortSignal,
  ): Promise<StepOutcome> => {
    try {
      return await destination.bootstrap(metrics, signal);
    } catch (error) {
      return { kind: 'retry', reason: `bootstrap failed: ${errorText(error)}` };
    }
  };

  return {
    ensure: async (signal) => {
      const metrics = wanted();
      const fingerprint = JSON.stringify(metrics);
      if (fingerprint === readyFor) return undefined;
      const outcome = await attempt(metrics, signal);
      if (outcome.kind === 'done') {
        readyFor = fingerprint;
        failures = 0;
        return undefined;
      }
      failures += 1;
      // What is refused for good may be mended at the other side, so it is tried again, rarely.
      return outcome.kind === 'rejected' ? { kind: 'hold', reason: outcome.reason } : outcome;
    },
    probe: (signal) => attempt(wanted(), signal),
    isReady: () => readyFor !== undefined,
    failures: () => failures,
  };
}

import type { MetricFilter } from '../../config/settings.ts';
import type { Destination, StepOutcome } from '../../destinations/destination.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import { errorText } from '../../model/error-text.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { BlockReason } from '../delivery-result.ts';

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

/**
 * Whether a destination gets an event: `exclude` wins over `include`, which wins over the
 * destination's own choice. A metric that the catalogue has forgotten, since its declaration was
 * removed, is offered as the custom metric it was.
 */
export function createEventFilter(
  destination: Pick<Destination, 'accepts'>,
  filter: MetricFilter | undefined,
  find: (code: string) => MetricDefinition | undefined,
): (event: UsageEvent) => boolean {
  return (event) => wants(find(event.metric) ?? forgottenMetric(event), destination, filter);
}

/** The metrics that a destination is to prepare for. */
export function wantedMetrics(
  catalog: readonly MetricDefinition[],
  destination: Pick<Destination, 'accepts'>,
  filter: MetricFilter | undefined,
): readonly MetricDefinition[] {
  return catalog.filter((metric) => wants(metric, destination, filter));
}

function wants(
  metric: MetricDefinition,
  destination: Pick<Destination, 'accepts'>,
  filter: MetricFilter | undefined,
): boolean {
  if (filter?.exclude?.includes(metric.code) === true) return false;
  return filter?.include?.includes(metric.code) === true || destination.accepts(metric);
}

function forgottenMetric({ metric, unit }: UsageEvent): MetricDefinition {
  return {
    code: metric,
    name: metric,
    unit,
    description: metric,
    aggregationField: metric,
    source: 'custom',
    informational: false,
    dimensions: [],
  };
}

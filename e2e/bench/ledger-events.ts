import { deriveEventId } from '../../operator/model/event-id.ts';
import { parseDecimal } from '../../operator/model/decimal.ts';
import { type EventIdentity, SCHEMA_VERSION, type UsageEvent } from '../../operator/model/event.ts';
import { formatInstant } from '../../operator/model/window.ts';

const WINDOW_MS = 60_000;
const FIRST_WINDOW = Date.UTC(2026, 10, 1);
const METRICS = ['cpu_core', 'memory_gb', 'storage_gb', 'instance', 'lb'];

/** One window's events, as `count` tenant clusters with five metrics each would give them. */
export function benchWindow(window: number, count: number): UsageEvent[] {
  const start = FIRST_WINDOW + window * WINDOW_MS;
  const windowStart = formatInstant(start);
  const windowEnd = formatInstant(start + WINDOW_MS);
  return Array.from({ length: count }, (_, index) => {
    const cluster = Math.floor(index / METRICS.length);
    const metric = METRICS[index % METRICS.length] ?? '';
    const digits = (((window * 7919 + index * 104_729) % 999_999_937) + 1) / 1e9;
    const quantity = parseDecimal(digits.toFixed(9));
    if (quantity === undefined) throw new RangeError(`quantity: not a decimal: "${digits}"`);
    const identity: EventIdentity = {
      tenant: `tenant-vcluster-team-${cluster}-main`,
      metric: `tenant_${metric}_hours`,
      window_start: windowStart,
      window_end: windowEnd,
      region: 'eu-central-1',
      project: `project-${cluster % 17}`,
      resource_id: `tenant-vcluster-team-${cluster}-main`,
      dimensions: {
        billing_mode: 'shared',
        capacity_type: 'on-demand',
        tenant_class: 'enterprise',
        tenant_cluster: `tenant-vcluster-team-${cluster}-main`,
      },
    };
    return {
      schema_version: SCHEMA_VERSION,
      id: deriveEventId(identity),
      ...identity,
      quantity,
      unit: 'core-hours',
      recorded_at: formatInstant(start + WINDOW_MS + 3_000),
      properties: { basis: 'usage' },
      source: 'collector',
    };
  });
}

import type { Tenant } from '../../operator/model/tenant.ts';
import { parseDecimal } from '../../operator/model/decimal.ts';
import { deriveEventId } from '../../operator/model/event-id.ts';
import { type EventIdentity, SCHEMA_VERSION, type UsageEvent } from '../../operator/model/event.ts';
import { formatInstant } from '../../operator/model/window.ts';
import type { RequestPlan } from './plan.ts';
import { createRandom } from './random.ts';
import { BEGINNING } from './subject/idle-clock.ts';

const TENANTS = 5;
/** Of everybody that uses anything. */
export const TENANT_IDS: readonly string[] = Array.from(
  { length: TENANTS },
  (_, index) => `tenant-vcluster-${index}-main`,
);
export const WINDOW_MS = 60_000;

const DAY_MS = 86_400_000;

/** A tenant as discovery knows it. */
export function tenantOf(id: string): Tenant {
  const region = 'eu-central-1';
  return { id, displayName: id, region, clusters: [id], createdAt: BEGINNING - DAY_MS };
}

const METRICS = [
  ['tenant_instance_hours', 'hours'],
  ['tenant_cpu_core_hours', 'core-hours'],
  ['tenant_storage_gb_hours', 'gib-hours'],
] as const;

/** The events of one request: always the same for the same seed and number. */
export function eventsOf(seed: number, number: number, request: RequestPlan): UsageEvent[] {
  const random = createRandom(seed * 1_000 + number);
  return Array.from({ length: request.events }, (_, index) => {
    const [metric, unit] = random.pick(METRICS);
    const start = BEGINNING + request.windowStart;
    const tenant = `tenant-vcluster-${random.between(0, TENANTS - 1)}-main`;
    const identity: EventIdentity = {
      tenant,
      metric,
      window_start: formatInstant(start),
      window_end: formatInstant(start + WINDOW_MS),
      region: 'eu-central-1',
      sku: `sku-${number}-${index}`,
      dimensions: { tenant_cluster: tenant, tenant_class: 'dev' },
    };
    const own = request.kind === 'ingest' && random.chance(0.5);
    const nanos = String(random.between(1, 999_999_999)).padStart(9, '0');
    return {
      schema_version: SCHEMA_VERSION,
      id: own ? `own-${seed}-${number}-${index}` : deriveEventId(identity),
      ...identity,
      quantity: parseDecimal(`${random.between(0, 40)}.${nanos}`) ?? unreadable(nanos),
      unit,
      recorded_at: formatInstant(start + WINDOW_MS),
      source: request.kind === 'window' ? 'collector' : 'ingest:client',
    };
  });
}

function unreadable(text: string): never {
  throw new RangeError(`quantity: not a decimal: "${text}"`);
}

import { testTenant } from '../../../operator/destinations/testing/context.ts';
import { testEvent } from '../../../operator/ledger/testing/events.ts';
import { deriveEventId } from '../../../operator/model/event-id.ts';
import type { UsageEvent } from '../../../operator/model/event.ts';
import type { Tenant } from '../../../operator/model/tenant.ts';
import { formatInstant } from '../../../operator/model/window.ts';

const SERIES_PER_TENANT = 12;
export const WINDOW_MS = 60_000;
/** After its end a window is in the ledger. */
export const SETTLING_MS = 3_000;

/** Series of usage: a SKU of a tenant each, twelve of a tenant. */
export interface SeriesSet {
  readonly tenants: ReadonlyMap<string, Tenant>;
  readonly skus: readonly string[];
  /** The event of each series in the window that begins then. */
  readonly windowOf: (start: number) => readonly UsageEvent[];
}

export function createSeries(count: number, from: number): SeriesSet {
  const templates = Array.from({ length: count }, (_, series): UsageEvent => {
    const tenant = tenantOf(Math.floor(series / SERIES_PER_TENANT));
    const event = testEvent({ tenant, sku: `sku-${series % SERIES_PER_TENANT}` });
    return { ...event, metric: 'tenant_gpu_hours', unit: 'gpu-hours' };
  });
  const names = [...new Set(templates.map(({ tenant }) => tenant))];
  const tenants = names.map((id): [string, Tenant] => {
    const known = { id, displayName: id, clusters: [id], createdAt: from, billableFrom: from };
    return [id, testTenant(known)];
  });
  return {
    tenants: new Map(tenants),
    skus: [...new Set(templates.flatMap(({ sku }) => sku ?? []))],
    windowOf: (start) => {
      const window = {
        window_start: formatInstant(start),
        window_end: formatInstant(start + WINDOW_MS),
        recorded_at: formatInstant(start + WINDOW_MS + SETTLING_MS),
      };
      return templates.map((template) => {
        const event = { ...template, ...window };
        return { ...event, id: deriveEventId(event) };
      });
    },
  };
}

function tenantOf(number: number): string {
  return `tenant-vcluster-t${number}-t${number}`;
}

import { parseDecimal } from '../../model/decimal.ts';
import { deriveEventId } from '../../model/event-id.ts';
import { type EventIdentity, SCHEMA_VERSION, type UsageEvent } from '../../model/event.ts';
import { formatInstant } from '../../model/window.ts';

/** The default window of events, milliseconds since the epoch. */
export const TEST_WINDOW_START = Date.UTC(2026, 10, 21, 9, 0, 0);
export const TEST_WINDOW_MS = 60_000;

/** The fields of an event that a test sets; all others have defaults. */
export interface TestEvent {
  readonly id?: string;
  readonly tenant?: string;
  readonly quantity?: string;
  /** Milliseconds since the epoch. */
  readonly windowStart?: number;
  readonly sku?: string;
}

/** A complete usage event, with the derived id unless one is given. */
export function testEvent(wish: TestEvent = {}): UsageEvent {
  const windowStart = wish.windowStart ?? TEST_WINDOW_START;
  const quantity = parseDecimal(wish.quantity ?? '0.016666667');
  if (quantity === undefined) throw new RangeError(`quantity: not a decimal: "${wish.quantity}"`);
  const identity: EventIdentity = {
    tenant: wish.tenant ?? 'tenant-vcluster-a-a',
    metric: 'tenant_instance_hours',
    window_start: formatInstant(windowStart),
    window_end: formatInstant(windowStart + TEST_WINDOW_MS),
    region: 'eu-central-1',
    ...(wish.sku !== undefined && { sku: wish.sku }),
    dimensions: { tenant_cluster: 'tenant-vcluster-a-a', tenant_class: 'dev' },
  };
  return {
    schema_version: SCHEMA_VERSION,
    id: wish.id ?? deriveEventId(identity),
    ...identity,
    quantity,
    unit: 'hours',
    recorded_at: formatInstant(windowStart + TEST_WINDOW_MS + 3_000),
    source: 'collector',
  };
}

/** The events of one window, one for each of `count` tenants. */
export function testWindow(windowStart: number, count: number): UsageEvent[] {
  return Array.from({ length: count }, (_, index) =>
    testEvent({ windowStart, tenant: `tenant-vcluster-${index}-main` }),
  );
}

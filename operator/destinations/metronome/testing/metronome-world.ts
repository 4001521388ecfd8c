import {
  type FakeMetronome,
  startFakeMetronome,
} from '../../../../e2e/fakes/metronome/metronome.ts';
import { Secret } from '../../../model/secret.ts';
import type { MetronomeSettings } from '../settings.ts';
import type { Clock } from '../../../telemetry/clock.ts';
import { systemClock } from '../../../telemetry/system-clock.ts';
import { BUILT_IN_METRICS, type MetricDefinition } from '../../../model/catalog.ts';
import type { ProvisionOutcome } from '../../destination.ts';
import type { Tenant } from '../../../model/tenant.ts';
import { createTestContext, type TestContext, testTenant } from '../../testing/context.ts';
import { Metronome } from '../metronome.ts';

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
/** Shortly after the window of test events. */
export const METRONOME_NOW = Date.UTC(2026, 10, 21, 9, 5, 0);

/**
 * The metrics that go to Metronome: all but the informational ones
 * (docs/reference/events.md#metrics).
 */
export const METRONOME_METRICS = BUILT_IN_METRICS.filter(({ informational }) => !informational);

export const { signal: NEVER } = new AbortController();

export interface MetronomeWorld {
  readonly metronome: FakeMetronome;
  readonly destination: Metronome;
  readonly context: TestContext;
  /** The wall clock of both sides. */
  now: number;
  /** Starts another operator process on the same Metronome. */
  readonly restart: (settings?: Partial<MetronomeSettings>) => Metronome;
  readonly bootstrap: (metrics?: readonly MetricDefinition[]) => Promise<void>;
  /** Bootstraps and provisions. */
  readonly ready: (...tenants: Tenant[]) => Promise<void>;
  /** Makes a request like a person at the vendor; returns the id of the created object. */
  readonly asOperator: (path: string, body: unknown) => Promise<string>;
  /** Makes a rate card with an alias. */
  readonly rateCard: (alias: string, currency?: 'USD' | 'EUR') => Promise<string>;
  readonly requests: (path: string) => readonly { readonly body: unknown }[];
  readonly close: () => Promise<void>;
}

const EUR = '2714e483-4ff1-48e4-9e25-ac732e8f24f3';

export async function createMetronomeWorld(
  settings: Partial<MetronomeSettings> = {},
): Promise<MetronomeWorld> {
  const made: Metronome[] = [];
  const clock: Clock = { ...systemClock, now: () => world.now };
  const context = createTestContext(clock);
  const metronome = await startFakeMetronome({ apiToken: 'token', now: () => world.now });
  const create = (change: Partial<MetronomeSettings> = {}): Metronome => {
    const full: MetronomeSettings = {
      url: metronome.url,
      apiToken: new Secret('token'),
      currency: 'USD',
      ...settings,
      ...change,
    };
    const destination = new Metronome('metronome', full, context);
    made.push(destination);
    return destination;
  };
  const asOperator: MetronomeWorld['asOperator'] = async (path, body) => {
    const answer = await fetch(metronome.url + path, {
      method: 'POST',
      headers: { authorization: 'Bearer token', 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await answer.text();
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status}: ${text}`);
    const { data } = JSON.parse(text) as { readonly data?: { readonly id?: string } };
    return data?.id ?? '';
  };
  const world: MetronomeWorld = {
    metronome,
    destination: create(),
    context,
    now: METRONOME_NOW,
    restart: create,
    bootstrap: async (metrics = METRONOME_METRICS) => {
      expectDone(await world.destination.bootstrap(metrics, NEVER));
    },
    ready: async (...tenants) => {
      await world.bootstrap();
      for (const tenant of tenants.length > 0 ? tenants : [testTenant()]) {
        expectDone(await world.destination.customers.provision(tenant, NEVER));
      }
    },
    asOperator,
    rateCard: (alias, currency = 'USD') =>
      asOperator('/v1/contract-pricing/rate-cards/create', {
        name: `Card ${alias}`,
        aliases: [{ name: alias }],
        ...(currency === 'EUR' && { fiat_credit_type_id: EUR }),
      }),
    requests: (path) =>
      metronome.requests
        .filter((request) => request.path === path)
        .map(({ body }) => ({ body: body === '' ? undefined : (JSON.parse(body) as unknown) })),
    close: async () => {
      await Promise.all(made.map((one) => one.close()));
      await metronome.close();
    },
  };
  return world;
}

function expectDone(outcome: ProvisionOutcome): void {
  if (outcome.kind !== 'done') throw new Error(outcome.reason);
}

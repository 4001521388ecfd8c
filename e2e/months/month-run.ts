import { COLLECTOR_METRICS } from '../../operator/model/catalog.ts';
import type { UsageEvent } from '../../operator/model/event.ts';
import type { Tenant } from '../../operator/model/tenant.ts';
import { formatInstant } from '../../operator/model/window.ts';
import { testTenant } from '../../operator/destinations/testing/context.ts';
import { testEvent } from '../../operator/ledger/testing/events.ts';
import type { Misbehaviour } from '../fakes/misbehaviour.ts';
import { createRandom } from '../faults/random.ts';
import { type Engine, startEngine } from './engine.ts';
import {
  END,
  JANUARY,
  type MonthAct,
  type MonthPlan,
  type MonthVendorName,
  type Use,
} from './month-plan.ts';
import { startReceiver } from './receiver.ts';
import { type MonthReport, decision } from './evaluation.ts';
import {
  currencyOf,
  H,
  type LagoOptions,
  type MonthVendor,
  startLago,
  startMetronome,
  startStripe,
} from './vendors.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** After it nothing of a window is still to come. */
const SETTLED_MS = 3 * MINUTE_MS;
/** Windows that are closed after a step, used or not. */
const WINDOWS_AFTER = 6;

export interface MonthOptions {
  /** An invoice loses a line, of which nobody but the stand-in knows, to see that it is counted. */
  readonly withoutLine?: boolean;
}

/** Lives through the months of a plan, and holds what was used against what the invoices have. */
export async function runMonth(plan: MonthPlan, options: MonthOptions = {}): Promise<MonthReport> {
  const vendor = await startVendor(plan);
  const engine = await startEngine({
    settings: { ...vendor.settings, late: plan.late },
    beginning: JANUARY - DAY_MS,
    turnTo: vendor.turnTo,
  });
  try {
    await engine.clock.during(vendor.prepare);
    const events = new Map<string, UsageEvent>();
    await live(engine, vendor, plan, events);
    await settle(engine, vendor);
    return await decision(engine, vendor, events, options.withoutLine ?? false);
  } finally {
    await engine.stop();
    await vendor.close();
  }
}

function startVendor({ seed, vendor }: MonthPlan): Promise<MonthVendor> {
  const random = createRandom(seed);
  const starts: Readonly<Record<MonthVendorName, () => Promise<MonthVendor>>> = {
    lago: () => startLago({ baseFees: random.pick(FEES), ...lagoOptions(seed, 0) }),
    'lago with drafts': () => startLago({ baseFees: random.pick(FEES), ...lagoOptions(seed, 3) }),
    'stripe flexible': () => startStripe({ mode: 'flexible', ...stripeRules(seed) }),
    'stripe classic': () => startStripe({ mode: 'classic', ...stripeRules(seed) }),
    metronome: () =>
      startMetronome({ pastStatements: random.pick(['never', 'generated'] as const) }),
    webhook: startReceiver,
  };
  return starts[vendor]();
}

const FEES = [
  [0, 0],
  [10_000, 0],
  [0, 10_000],
] as const;

/** Half of all installations store late, are prepaid, have thresholds, minimums or prices beside those of 0. */
function lagoOptions(seed: number, graceDays: number): LagoOptions {
  const random = createRandom(seed);
  const rules = {
    graceDays,
    ingestMs: random.pick([0, 20_000]),
    walletCents: random.pick([0, 5_000]),
  };
  return {
    rules,
    minimums: random.pick([
      [0, 0],
      [4_000, 9_000],
    ] as const),
    chargesByHand: random.chance(0.5),
    ...(random.chance(0.5) && { usageThreshold: 1_500 }),
  };
}

/** Both settings of everything that the documentation leaves open. */
function stripeRules(seed: number) {
  const random = createRandom(seed);
  return {
    finalInvoiceHasGrace: random.chance(0.5),
    backdatedUsage: random.pick(['with-its-period', 'first-invoice'] as const),
    cancelNeedsProrate: random.chance(0.5),
    sumsLagSeconds: random.pick([0, 300]),
    discountPercent: random.pick([0, 20]),
    ...(random.chance(0.5) && {
      tax: { percent: 19, behavior: 'exclusive' as const, isAutomatic: random.chance(0.5) },
    }),
  };
}

interface Step {
  readonly at: number;
  readonly run: () => Promise<void>;
}

async function live(
  engine: Engine,
  vendor: MonthVendor,
  plan: MonthPlan,
  events: Map<string, UsageEvent>,
): Promise<void> {
  const act = createActs(engine, vendor, events);
  const steps: Step[] = plan.steps.map((step) => ({ at: step.at, run: () => act(step.act) }));
  const gone = plan.steps.flatMap(({ at, act: { ...one } }) =>
    one.do === 'leave' ? [{ at: at + SETTLED_MS, tenant: one.tenant }] : [],
  );
  for (const { at, tenant } of gone) {
    steps.push({ at, run: () => engine.offboard(testTenant({ id: tenant })) });
  }
  for (const start of windowsOf(plan)) {
    const close = (): Promise<void> => engine.append([], start + MINUTE_MS);
    steps.push({ at: start + 2 * MINUTE_MS + 1, run: close });
  }
  for (let at = JANUARY + 5 * HOUR_MS; at < END; at += DAY_MS) {
    steps.push({ at, run: engine.lookAtInvoices });
  }
  for (const { at, run } of steps.toSorted((a, b) => a.at - b.at)) {
    await engine.passTo(at);
    if (engine.isDead()) await engine.restart(MINUTE_MS);
    await run();
  }
}

/** Those after something happened, and those in which months begin. */
function windowsOf({ steps }: MonthPlan): ReadonlySet<number> {
  const moments = steps.flatMap(({ at, act }) => (act.do === 'use' ? [] : [at]));
  const slices = [1, 2, 3].map((month) => Date.UTC(2027, month, 1));
  return new Set([
    ...moments.flatMap((at) =>
      Array.from(
        { length: WINDOWS_AFTER },
        (_, index) => (Math.floor(at / MINUTE_MS) + index) * MINUTE_MS,
      ),
    ),
    ...slices.flatMap((at) => Array.from({ length: 19 }, (_, index) => at + index * 5 * MINUTE_MS)),
  ]);
}

function createActs(engine: Engine, vendor: MonthVendor, events: Map<string, UsageEvent>) {
  const tenants = new Map<string, Tenant>();
  const there = new Set<string>();
  let weather: readonly Misbehaviour[] = [];
  const during = <T>(work: () => Promise<T>): Promise<T> => engine.clock.during(work);
  return async (act: MonthAct): Promise<void> => {
    switch (act.do) {
      case 'use': {
        const event = eventOf(act.use, engine.clock.now());
        events.set(event.id, event);
        return engine.append([event]);
      }
      case 'plan': {
        const { plan, mode } = act;
        const known = tenants.get(act.tenant);
        if (known === undefined) return;
        const tenant = { ...known, plan, planChange: mode, currency: currencyOf(plan) };
        tenants.set(tenant.id, tenant);
        if (there.has(tenant.id)) engine.discover(tenant);
        return;
      }
      case 'arrive': {
        const createdAt = engine.clock.now();
        const id = act.tenant;
        const first = testTenant({ id, displayName: id, clusters: [id], createdAt });
        const tenant = tenants.get(id) ?? first;
        tenants.set(id, tenant);
        there.add(id);
        return engine.discover(tenant);
      }
      case 'leave':
        there.delete(act.tenant);
        return engine.forget(testTenant({ id: act.tenant }));
      case 'price':
        // Whoever does it there tries until it is done.
        return during(async () => {
          await setWeather(vendor.url, []);
          await vendor.price(act.plan, H, 5, startOfDay(engine));
          await setWeather(vendor.url, weather);
        });
      case 'hand':
        return during(async () => {
          await setWeather(vendor.url, []);
          await vendor.byHand?.(act.act);
          await setWeather(vendor.url, weather);
        });
      case 'weather':
        weather = act.orders;
        return during(() => setWeather(vendor.url, weather));
      case 'kill':
        return engine.restart(act.downtimeMs, act.awaits);
    }
  };
}

function startOfDay({ clock }: Engine): number {
  return Math.floor(clock.now() / DAY_MS) * DAY_MS;
}

function eventOf({ tenant, metric, start, units }: Use, at: number): UsageEvent {
  const id = `${tenant}-${metric}-${start}`;
  const event = testEvent({ tenant, id, windowStart: start, quantity: String(units) });
  const unit = COLLECTOR_METRICS.find(({ code }) => code === metric)?.unit ?? event.unit;
  return { ...event, metric, unit, recorded_at: formatInstant(at) };
}

async function setWeather(url: string, orders: readonly Misbehaviour[]): Promise<void> {
  const control = (path: string, body: string): Promise<Response> =>
    fetch(`${url}/_fake/${path}`, { method: 'POST', body });
  await control('behave', '');
  for (const order of orders) await control('misbehave', JSON.stringify(order));
}

/** Everything goes well from now on, until nothing waits any more. */
async function settle(engine: Engine, vendor: MonthVendor): Promise<void> {
  await engine.clock.during(() => setWeather(vendor.url, []));
  await engine.restart(0);
  await engine.passTo(engine.clock.now() + DAY_MS);
  for (let poll = 0; poll < 3; poll += 1) {
    await engine.lookAtInvoices();
    await engine.passTo(engine.clock.now() + 2 * HOUR_MS);
  }
}

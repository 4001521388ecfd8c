import { testEvent } from '../../operator/ledger/testing/events.ts';
import { formatInstant } from '../../operator/model/window.ts';
import type { PlanChange, Tenant } from '../../operator/model/tenant.ts';
import { testTenant } from '../../operator/destinations/testing/context.ts';
import { summary, time, usage } from '../fakes/vectors.ts';
import { type Engine, type EngineOptions, startEngine } from './engine.ts';
import { G, type HandAct, type Metric, type MonthVendor } from './vendors.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** Windows that are closed after something happened, used or not. */
const WINDOWS_AFTER = 15;
const UNTIL = time('Mar 05T00');
/** The first hour and a half of a month, in which billing systems make invoices. */
const SLICES = ['Feb 01T00:00', 'Mar 01T00:00'].flatMap((text) =>
  Array.from({ length: 19 }, (_, index) => time(text) + index * 5 * MINUTE_MS),
);

/** What happens to the tenant `acme`, beside its usage. */
export type Act =
  | { readonly do: 'plan'; readonly plan: 'a' | 'b'; readonly mode?: PlanChange }
  | { readonly do: 'leave' }
  | { readonly do: 'hand'; readonly act: HandAct }
  | { readonly do: 'return' }
  | { readonly do: 'price'; readonly metric: Metric; readonly each: number; readonly from: string };

/** Usage of a month or two, and what happens meanwhile, as `facts` of a table have it. */
export interface Month {
  readonly usage: string;
  readonly metric?: Metric;
  readonly acts?: readonly (readonly [at: string, act: Act])[];
  /** The first moment that is billable, where the tenant is not one since 1 January. */
  readonly since?: string;
}

/** What came of it: the invoices as `summary` has them, and the conditions that are left in the end. */
export interface Outcome {
  readonly bill: string;
  readonly reported: readonly string[];
  /** Units that are on no invoice or on two, and what the invoices' comparison tells of them. */
  readonly missing: number;
  readonly mismatch: number;
  /** Conditions that were there at any time. */
  readonly everReported: ReadonlySet<string>;
}

/** Lives through a month with the ledger, the delivery engine and one destination. */
export async function liveMonth(
  vendor: MonthVendor,
  month: Month,
  late?: EngineOptions['settings']['late'],
): Promise<Outcome> {
  const engine = await startEngine({
    settings: { ...vendor.settings, late },
    beginning: time('01T00') - DAY_MS,
    turnTo: vendor.turnTo,
  });
  try {
    await engine.clock.during(vendor.prepare);
    const everReported = new Set<string>();
    for (const { at, run } of stepsOf(engine, vendor, month, everReported)) {
      await engine.passTo(at);
      await run();
    }
    await engine.passTo(UNTIL);
    for (let poll = 0; poll < 3; poll += 1) {
      await engine.lookAtInvoices();
      await engine.passTo(engine.clock.now() + 61 * MINUTE_MS);
    }
    const account = vendor.account();
    const { events } = account;
    const missing = events.reduce((sum, { units, lines }) => sum + Number(units) * (1 - lines), 0);
    const examples = engine.delivery().statuses()[0]?.invoices?.examples ?? [];
    return {
      bill: summary(account, vendor.label),
      reported: engine.conditions(),
      missing,
      mismatch: -examples.reduce((sum, { difference }) => sum + Number(difference), 0),
      everReported,
    };
  } finally {
    await engine.stop();
    await vendor.close();
  }
}

interface Step {
  readonly at: number;
  readonly run: () => Promise<void>;
}

function stepsOf(
  engine: Engine,
  vendor: MonthVendor,
  month: Month,
  everReported: Set<string>,
): readonly Step[] {
  const { metric = G, acts = [], since } = month;
  const createdAt = time(since ?? '01T00');
  let tenant: Tenant = testTenant({
    id: 'acme',
    displayName: 'Acme',
    clusters: ['acme'],
    createdAt,
  });
  const act = async (one: Act): Promise<void> => {
    switch (one.do) {
      case 'plan':
        tenant = { ...tenant, plan: one.plan, planChange: one.mode ?? 'now' };
        return engine.discover(tenant);
      case 'leave':
        engine.forget(tenant);
        return engine.offboard(tenant);
      case 'return':
        return engine.discover(tenant);
      case 'hand':
        await engine.clock.during(async () => vendor.byHand?.(one.act));
        return undefined;
      case 'price':
        return engine.clock.during(() => vendor.price('a', one.metric, one.each, time(one.from)));
    }
  };
  const uses = usage(month.usage);
  // A tenant that is there since the month began has a window then, in which it used nothing yet.
  const first =
    since === undefined ? [{ stamp: createdAt, at: createdAt + 2 * MINUTE_MS, units: '0' }] : [];
  const moments = [...acts.map(([at]) => time(at)), ...uses.map(({ stamp }) => stamp)];
  const closed = new Set([
    ...SLICES,
    ...moments.flatMap((at) =>
      Array.from({ length: WINDOWS_AFTER }, (_, index) => floor(at) + index * MINUTE_MS),
    ),
  ]);
  return [
    {
      at:
        since === undefined
          ? createdAt - 60 * MINUTE_MS
          : Math.min(...uses.map(({ at }) => at)) - MINUTE_MS,
      run: async () => engine.discover(tenant),
    },
    ...acts.map(([at, one]) => ({ at: time(at), run: () => act(one) })),
    ...[...first, ...uses].map(({ stamp, at, units }, index) => ({
      at,
      run: () => engine.append([eventOf({ stamp, at, units, metric, index })]),
    })),
    // Windows close two minutes after they begin, and their usage is in the ledger by then.
    ...[...closed].map((start) => ({
      at: start + 2 * MINUTE_MS + 1,
      run: () => engine.append([], start + MINUTE_MS),
    })),
    ...Array.from({ length: 65 }, (_, day) => ({
      at: createdAt + day * DAY_MS + 5 * 3_600_000,
      run: async () => {
        await engine.lookAtInvoices();
        for (const type of engine.conditions()) everReported.add(type);
      },
    })),
  ]
    .filter(({ at }) => at < UNTIL)
    .toSorted((a, b) => a.at - b.at);
}

function eventOf({
  stamp,
  at,
  units,
  metric,
  index,
}: {
  readonly stamp: number;
  readonly at: number;
  readonly units: string;
  readonly metric: Metric;
  readonly index: number;
}) {
  const event = testEvent({
    tenant: 'acme',
    id: `${index}`,
    windowStart: stamp,
    quantity: units,
  });
  return { ...event, metric, recorded_at: formatInstant(at) };
}

function floor(at: number): number {
  return Math.floor(at / MINUTE_MS) * MINUTE_MS;
}
